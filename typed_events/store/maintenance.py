"""Maintenance of event streams, a bounded step in each."""

from storage_core import ClosedError, PartBuilder, ShardPoisonedError, TieringReport
from typed_events.store.owned_streams import OwnedStreams


def maintain(streams: OwnedStreams, builder: PartBuilder | None = None) -> dict[str, TieringReport]:
    """Do what is due in each stream; return its report.

    A stream that a failed commit has closed meanwhile is left out.
    """
    reports = {}
    for name, stream in streams.all().items():
        try:
            streams.note_expiry(name, stream.expire())
            reports[name] = stream.maintain(builder)
        except (ClosedError, ShardPoisonedError):
            continue
    return reports
