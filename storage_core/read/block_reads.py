"""Blocks of a snapshot: found by their zones, proven, decoded; or rebuilt from parts, if trimmed.

Rebuilt blocks are compared with what zones say of them, since no checksum is of their bytes. Of a
wide zone (format/zone.py) pieces are rebuilt, those alone that have wanted addresses. Each is
compared with what the zone says of all rows; whether they are as many is known once all were read.

Copying a block empties the processor's caches of the code that decodes it. So a scan reads and
proves ever more neighbours one after the other, and then decodes them one after the other, or
small ones together.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final, NoReturn, Protocol

from storage_core.engine.key_value import Item, StoreSnapshot
from storage_core.errors import ClosedError, CorruptionError, ShardlogError
from storage_core.format.block import Block, BlockPlace, decode_proven, prove_block
from storage_core.format.joined_zone import spanning
from storage_core.format.keys import FAMILY_LOG, INT64_MAX, log_key
from storage_core.format.row_columns import COMMITTED
from storage_core.format.shard_state import AddressRange
from storage_core.format.small_blocks import decode_small_blocks
from storage_core.format.zone import Zone
from storage_core.platform.arrow import concat
from storage_core.read.block_proof import WideProof, disagreement
from storage_core.read.columns import block_columns
from storage_core.read.rows import in_order
from storage_core.read.rows_as_block import BLOCK_COLUMNS, rows_as_block

_RUN_BLOCKS: Final = 8
_RUN_BYTES: Final = 4 * 2**20
_SMALL_BLOCKS: Final = 512
_Run = list[tuple[Zone, bytes | None]]


class RebuiltBlocks(Protocol):
    """Blocks of a snapshot that were trimmed."""

    def block(self, zone: Zone) -> Block:
        """Return the block of a zone, rebuilt."""
        ...

    def pieces(self, zone: Zone, some: AddressRange, *, back: bool) -> Iterator[tuple[Zone, Block]]:
        """Yield the rows of some addresses of a wide zone, in pieces, perhaps the last first."""
        ...


class BlockReads:
    """Reads blocks of a snapshot, and remembers which it could not. One thread at a time."""

    def __init__(  # noqa: PLR0913 - what blocks are read by
        self,
        stream: str,
        place: BlockPlace,
        store: StoreSnapshot,
        trimmed: int = 0,
        expired_end: int = 0,
        parts: Callable[[], RebuiltBlocks] | None = None,
        gaps: Sequence[AddressRange] = (),
    ) -> None:
        """Read blocks of this place, those below `trimmed` by what rebuilds them."""
        self.unreadable: list[AddressRange] = []
        # Apart: a part's file may come back, from a backup or a disk that was away.
        self.gone_with_parts: list[AddressRange] = []
        self._stream = stream
        self._place = place
        self._store = store
        self._trimmed = trimmed
        self._expired_end = expired_end
        self._parts = parts
        self._gaps = gaps

    def close(self) -> None:
        """Let go of what rebuilds blocks, which refers to the snapshot.

        In a cycle all of it would stay until the garbage collector runs.
        """
        self._parts = _refuse_closed

    def block(self, zone: Zone) -> Block:
        """Return a zone's block, proven.

        Raises:
            CorruptionError: The block is missing or damaged.
        """
        if zone.end <= self._trimmed:
            return self._of_parts(zone)
        try:
            item = self._store.at_or_after(FAMILY_LOG, log_key(zone.first))
        except CorruptionError as error:
            raise self._unreadable(zone, str(error)) from error
        return self._decoded(zone, self._proven(zone, item))

    def block_at(self, zone: Zone, address: int) -> tuple[Zone, Block]:
        """Return a zone with its block, of a wide one the piece about an address or behind it.

        Raises:
            CorruptionError: As `block` does, or there is no row at the address or behind it.
        """
        for piece in self.pieces(zone, address):
            return piece
        raise self._error(zone, f"its parts have no row from address {address} on")

    def pieces(
        self, zone: Zone, start: int = 0, end: int = INT64_MAX, *, back: bool = False
    ) -> Iterator[tuple[Zone, Block]]:
        """Yield a zone with its block; of a wide one those with rows of some addresses, in pieces.

        Each piece is a zone with a block of these addresses alone, by address.

        Args:
            zone: The zone.
            start: First address wanted of a wide zone.
            end: Exclusive end of them.
            back: Whether the last piece comes first.

        Raises:
            CorruptionError: As `block` does; the pieces before it have been yielded.
        """
        if not zone.is_wide or zone.end > self._trimmed:
            yield zone, self.block(zone)
            return
        wanted = AddressRange(max(start, zone.first), min(end, zone.end))
        ranges = _without(wanted, self._gaps)
        proof = WideProof(zone)
        try:
            for some in ranges[::-1] if back else ranges:
                for piece, block in self._rebuilt.pieces(zone, some, back=back):
                    _refuse(proof.difference_of(block))
                    yield piece, block
            if ranges == [AddressRange(zone.first, zone.end)]:
                _refuse(proof.difference_of_all())
        except CorruptionError as error:
            raise self._gone_with_parts(zone, _common(wanted, error), error) from error

    def ranges_of(self, zone: Zone) -> list[AddressRange]:
        """Return the addresses of a zone; of a wide one those alone that were not given up."""
        whole = AddressRange(zone.first, zone.end)
        return _without(whole, self._gaps) if zone.is_wide else [whole]

    def blocks(
        self, zones: Iterator[Zone], start: int = 0, end: int = INT64_MAX
    ) -> Iterator[tuple[Zone, Block]]:
        """Yield zones with their blocks, reading neighbours in one pass.

        Wide zones come in pieces, as `pieces` yields them.

        Raises:
            CorruptionError: A block is missing or damaged; those before it have been yielded.
        """
        for run in self._runs(zones, _RUN_BLOCKS):
            while run:
                yield from self._next_of(run, start, end)

    def blocks_or_joined(
        self, zones: Iterator[Zone], start: int = 0, end: int = INT64_MAX
    ) -> Iterator[tuple[Zone, Block]]:
        """Yield what `blocks` does, of small neighbours one zone and one block for all.

        The zone spans theirs, and has no ids. Below `expired_end` only blocks are joined between
        which none has expired: a scan has future-dated records to show in its place.

        Raises:
            CorruptionError: As `blocks` does.
        """
        for run in self._runs(zones, _SMALL_BLOCKS):
            while run:
                count = _small_neighbours(run, self._expired_end)
                joined = self._joined(run[-count:][::-1]) if count > 1 else None
                if joined is None:
                    for _ in range(max(1, count)):
                        yield from self._next_of(run, start, end)
                else:
                    del run[-count:]
                    yield joined

    def several(self, zones: Sequence[Zone]) -> Block | None:
        """Return the blocks of small zones, none of them trimmed, as one.

        None where one is damaged or is not what its zone says: `block` raises for that one.
        """
        before = len(self.unreadable)
        try:
            joined = self._joined(list(self._proven_blocks(iter(zones))))
        except CorruptionError:
            del self.unreadable[before:]
            return None
        return None if joined is None else joined[1]

    def _runs(self, zones: Iterator[Zone], blocks_most: int) -> Iterator[_Run]:
        """Yield ever more blocks at a time, proven, the first of them last."""
        reading = self._proven_blocks(zones)
        most = 1
        failure: ShardlogError | None = None
        while failure is None:
            run: _Run = []
            failure = _fill(run, reading, most)
            if not run:
                break
            most = min(2 * most, blocks_most)
            run.reverse()
            yield run
        if failure is not None:
            raise failure

    def _next_of(self, run: _Run, start: int, end: int) -> Iterator[tuple[Zone, Block]]:
        # Taken out, so that a block handed on is not held until its run ends.
        zone, data = run.pop()
        if data is None:
            yield from self.pieces(zone, start, end)
        else:
            yield zone, self._decoded(zone, data)

    def _joined(self, run: _Run) -> tuple[Zone, Block] | None:
        """Return small blocks as one; None where each is better read by itself."""
        zone = spanning([zone for zone, _ in run])
        blocks = [data for _, data in run if data is not None]
        decoded = decode_small_blocks([zone for zone, _ in run], blocks, self._place)
        if decoded is None:
            return None
        if len(decoded) == 1:
            return zone, decoded[0]
        columns = (*BLOCK_COLUMNS, COMMITTED)
        rows = concat([block_columns(block, self._place.shard, columns, None) for block in decoded])
        return zone, rows_as_block(zone, in_order([rows], ("address",), columns))

    def _proven_blocks(self, zones: Iterator[Zone]) -> Iterator[tuple[Zone, bytes | None]]:
        """Yield zones with the bytes of their blocks, proven while they are in the caches.

        None stands for those of a block that was trimmed.
        """
        items: Iterator[Item] | None = None
        expected = -1
        for zone in zones:
            if zone.end <= self._trimmed:
                yield zone, None
                continue
            try:
                if items is None or zone.previous_end != expected:
                    items = self._store.items(FAMILY_LOG, log_key(zone.first), None)
                item = next(items, None)
            except CorruptionError as error:
                raise self._unreadable(zone, str(error)) from error
            expected = zone.last + 1
            yield zone, self._proven(zone, item)

    def _proven(self, zone: Zone, item: Item | None) -> bytes:
        """Return the bytes found for a zone's block, if they are those it speaks of."""
        if item is None or item[0] != log_key(zone.first):
            raise self._unreadable(zone, "the block is missing")
        try:
            prove_block(item[1], self._place, zone.first, zone.checksum)
        except CorruptionError as error:
            raise self._unreadable(zone, self._with_place(zone, error)) from error
        return item[1]

    def _decoded(self, zone: Zone, data: bytes) -> Block:
        try:
            block = decode_proven(data, self._place, zone.first)
        except CorruptionError as error:
            raise self._unreadable(zone, self._with_place(zone, error)) from error
        if block.last != zone.last or block.batch.num_rows != zone.count:
            raise self._unreadable(zone, "the block differs from its zone")
        return block

    def _of_parts(self, zone: Zone) -> Block:
        try:
            block = self._rebuilt.block(zone)
            if difference := disagreement([zone], block):
                _refuse(f"its parts make another block: {difference}")
        except CorruptionError as error:
            raise self._gone_with_parts(zone, AddressRange(zone.first, zone.end), error) from error
        return block

    @property
    def _rebuilt(self) -> RebuiltBlocks:
        assert self._parts is not None, "this snapshot was made without parts"
        return self._parts()

    def _gone_with_parts(
        self, zone: Zone, gone: AddressRange, error: CorruptionError
    ) -> CorruptionError:
        name = "" if error.path is None else f"{error.path.name}: "
        self.gone_with_parts.append(gone)
        reason = f"it was trimmed, {name}{error.message}"
        return self._error(zone, reason, error.path, gone)

    def _with_place(self, zone: Zone, error: CorruptionError) -> str:
        """Say what is wrong with a block's bytes, and where they lie if in a segment."""
        place = None
        # The error is raised, whether the place is found or not.
        with suppress(ShardlogError):
            place = self._store.segment_location(log_key(zone.first))
        return f"{error}" if place is None else f"{error}, {place}"

    def _unreadable(self, zone: Zone, reason: str) -> CorruptionError:
        self.unreadable.append(AddressRange(zone.first, zone.end))
        return self._error(zone, reason)

    def _error(
        self, zone: Zone, reason: str, path: Path | None = None, some: AddressRange | None = None
    ) -> CorruptionError:
        some = AddressRange(zone.first, zone.end) if some is None else some
        return CorruptionError(
            f"a block cannot be read: {reason}",
            stream=self._stream,
            shard=self._place.shard,
            path=path,
            start=some.start,
            end=some.end,
        )


def _refuse_closed() -> NoReturn:
    message = "the store was closed while it was being read"
    raise ClosedError(message)


def _refuse(difference: str | None) -> None:
    if difference is not None:
        raise CorruptionError(difference)


def _without(wanted: AddressRange, gaps: Sequence[AddressRange]) -> list[AddressRange]:
    """Return what of some addresses was not given up, as ranges that ascend."""
    ranges, start = [], wanted.start
    for gap in sorted(gaps):
        if gap.overlaps(start, wanted.end):
            ranges.append(AddressRange(start, max(start, gap.start)))
            start = gap.end
    ranges.append(AddressRange(start, wanted.end))
    return [some for some in ranges if some.start < some.end]


def _common(wanted: AddressRange, error: CorruptionError) -> AddressRange:
    """Return the wanted addresses that a damaged part has, or all."""
    if error.start is None or error.end is None:
        return wanted
    start, end = max(wanted.start, error.start), min(wanted.end, error.end)
    return AddressRange(start, end) if start < end else wanted


def _fill(
    run: _Run,
    reading: Iterator[tuple[Zone, bytes | None]],
    most: int,
) -> ShardlogError | None:
    """Add blocks to a run; return what ended it, if it was a failure."""
    size = large = 0
    try:
        for zone, data in islice(reading, most):
            run.append((zone, data))
            size += 0 if data is None else len(data)
            large += data is None or not zone.is_small
            if size >= _RUN_BYTES or large >= _RUN_BLOCKS:
                break
    except ShardlogError as error:
        return error
    return None


def _small_neighbours(run: _Run, expired_end: int) -> int:
    """Return how many blocks at the end of a run may be joined."""
    reached: int | None = None
    for count, (zone, data) in enumerate(reversed(run)):
        if data is None or not zone.is_small:
            return count
        if reached is not None and zone.previous_end != reached < expired_end:
            # What lies between may have expired, and not end where this one begins.
            return count
        reached = zone.end
    return len(run)
