"""Proofs: what a subscriber was told of is still what the log has.

A proof is of a place, and is 16 digits: 4 of the stream's incarnation, and 12 of the digest of the
row before the place; these are 0 where no row is there. Behind a restore of an older copy, and in
a stream that was made anew, another row is there, or none.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from storage_core.sql.pool.row_digests import row_digests
from storage_core.sql.pool.stream_ranges import Instance, RowRange, StreamRanges
from typed_events.errors import StaleCheckpointError
from typed_events.subscriptions.checkpoints import Place

_OF_STREAM: Final = 4
_OF_ROW: Final = 12
_NO_ROW: Final = "0" * _OF_ROW
_untyped: Any = pc


class Proofs:
    """The proofs of the places behind some rows, made when first asked for. Any thread."""

    def __init__(self, incarnation: str, identities: Sequence[pa.RecordBatch]) -> None:
        """Take what tells the rows from others, in the order of addresses."""
        self._incarnation = incarnation
        self._identities = identities
        self._by_address: Mapping[int, str] | None = None

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return sum(batch.nbytes for batch in self._identities)

    def taken(self, addresses: Sequence[int]) -> "Proofs":
        """Return those of some rows alone."""
        wanted: Any = pa.array(addresses, pa.int64())
        batches: list[Any] = [*self._identities]
        taken = [
            batch.filter(_untyped.is_in(batch.column("address"), value_set=wanted))
            for batch in batches
        ]
        return Proofs(self._incarnation, [batch for batch in taken if batch.num_rows])

    def behind(self, addresses: Sequence[int]) -> list[str]:
        """Return the proof of the place behind each of some rows."""
        by_address = self._by_address
        if by_address is None:
            batches: list[Any] = [*self._identities]
            by_address = self._by_address = {
                address: _proof(self._incarnation, digest)
                for batch in batches
                for address, digest in zip(
                    batch.column("address").to_pylist(), row_digests(batch), strict=True
                )
            }
        return [by_address[address] for address in addresses]


def proofs_of(ranges: StreamRanges, rows: RowRange) -> Proofs:
    """Return the proofs of the places behind rows."""
    return Proofs(ranges.incarnation, rows.identities)


def place_behind(ranges: StreamRanges, rows: RowRange) -> Place:
    """Return the place behind a range, with its proof."""
    last = rows.identities[-1].slice(rows.identities[-1].num_rows - 1) if rows.identities else None
    is_there = last is not None and last.column("address").to_pylist() == [rows.reached - 1]
    digest = row_digests(last)[0] if last is not None and is_there else None
    return Place(rows.reached, _proof(ranges.incarnation, digest))


def place_at(ranges: StreamRanges, shard: int, address: int) -> Place:
    """Return a place with its proof, by the row that is before it."""
    return Place(address, _proof(ranges.incarnation, ranges.row_digest(shard, address - 1)))


def refuse_stale(ranges: StreamRanges, shard: int, place: Place) -> Instance:
    """Refuse a place that is not of this log; one whose row has expired since cannot be judged.

    Before the first address no row is, so nothing was told that may be another one by now.

    Returns:
        The instance of the shard for which it holds.

    Raises:
        StaleCheckpointError: Another row is there, or none.
    """
    instance = ranges.instance(shard)
    if place.proof is None or not place.address:
        return instance
    now = place_at(ranges, shard, place.address).proof
    assert now is not None, "it is made by now"
    is_expired = (
        now[:_OF_STREAM] == place.proof[:_OF_STREAM]
        and now[_OF_STREAM:] == _NO_ROW
        and ranges.is_gone(shard, place.address - 1)
    )
    if now != place.proof and not is_expired:
        message = (
            f"{ranges.name}/{shard}:{place.address} is a place in other rows than there are: an "
            f"older copy of {ranges.name} was restored since, or it was made anew; FROM START "
            "tells all that is there"
        )
        raise StaleCheckpointError(message)
    return instance


def _proof(incarnation: str, digest: str | None) -> str:
    return incarnation[:_OF_STREAM] + (digest or _NO_ROW)[:_OF_ROW]
