"""Maintenance of event streams, a bounded step in each."""

from collections.abc import Mapping

from storage_core import ClosedError, PartBuilder, ShardPoisonedError, Stream, TieringReport


def maintain(
    streams: Mapping[str, Stream], builder: PartBuilder | None = None
) -> dict[str, TieringReport]:
    """Do what is due in each stream; return its report.

    A stream that a failed commit has closed meanwhile is left out.
    """
    reports = {}
    for name, stream in streams.items():
        try:
            stream.expire()
            reports[name] = stream.maintain(builder)
        except (ClosedError, ShardPoisonedError):
            continue
    return reports
