"""The door to one shard of a stream that is open for reading: its reader, and where it begins.

Everything else of a stream is asked of `StreamReader` itself.
"""

from dataclasses import dataclass

from storage_core import ReadRequest, ShardReader, StreamReader


@dataclass(frozen=True, slots=True)
class ShardExtent:
    """What a shard still has.

    Attributes:
        born: The first address it can ever have had.
        start: The first that is still kept.
        lost: Ranges that were acknowledged and are gone, as (start, end).
    """

    born: int
    start: int
    lost: tuple[tuple[int, int], ...] = ()

    def missing(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Return what of a range was there once and cannot be read any more."""
        ranges = [(max(begin, self.born), min(end, self.start))]
        ranges += [(max(begin, first), min(end, last)) for first, last in self.lost]
        return sorted(found for found in ranges if found[0] < found[1])


def extent_of(reader: StreamReader, shard: int) -> ShardExtent:
    """Return what a shard still has, by a look at its store."""
    state = reader._follower(shard).state()  # noqa: SLF001 - the log's own view of one shard
    lost = tuple((one.start, one.end) for one in state.lost)
    return ShardExtent(state.born, max(state.start, state.born), lost)


def shard_reader(reader: StreamReader, shard: int) -> ShardReader:
    """Return what answers requests for one shard."""
    return reader._follower(shard)  # noqa: SLF001 - as above


def replay(shard: int, begin: int | None, end: int, columns: tuple[str, ...]) -> ReadRequest:
    """Return a request for a range as it was stored, whatever has expired since."""
    return ReadRequest(shard, start_address=begin, end_address=end, columns=columns, order="replay")
