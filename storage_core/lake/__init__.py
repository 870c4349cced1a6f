"""The lake: a stream's parts published as a Delta table on an object store.

A name is loaded when it is first asked for (platform/lazy_exports.py).
"""

from typing import TYPE_CHECKING, Final

from storage_core.platform.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from storage_core.lake.options_file import lake_options, option_texts
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {"options_file": ("lake_options", "option_texts")},
        extra="lake",
    )

__all__: Final = ["lake_options", "option_texts"]
