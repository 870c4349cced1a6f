"""Typed events over the shards of a root: facts in by a line of text, stories and slices out."""

from typing import TYPE_CHECKING

from storage_core.platform.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from typed_events.answer import Answer, Status
    from typed_events.event_store import EventStore
    from typed_events.store.options import EventStoreOptions
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "answer": ("Answer", "Status"),
            "event_store": ("EventStore",),
            "store.options": ("EventStoreOptions",),
        },
    )

__all__ = ["Answer", "EventStore", "EventStoreOptions", "Status"]
