"""A shard as plain Python lists: what the log promises, in the simplest words that say it.

Written rows stand in `rows` in order of arrival; `committed` says how many addresses are shown.
`write` is the only way in, and atomic: `passed` collects the shard after each write of a step,
so a crash inside the step may leave any of these, and nothing else. `ends` collects what may be
published on the way: what was, what was written, the end of each write, never its middle.
"""

from collections import Counter
from collections.abc import Sequence
from copy import copy
from typing import NamedTuple

from storage_core import StreamOptions
from tests.model.schemas import NOTHING, Shown, brings_schemas, shown_of
from tests.strategies import DAY_SECONDS, Given, GivenCaps

NORMAL, LATE, AHEAD, EXPIRED = 0, 1, 2, 3
INT64_MIN = -(2**63)
UNITS_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class RefusedError(Exception):
    """The log must refuse this call and change nothing that shows."""


class GoneError(Exception):
    """The log must say that it no longer has what a replay asks for."""


class PlainRow(NamedTuple):
    """One stored record, its fields in the order of `tail`'s columns."""

    shard: int
    secondary: int
    primary: int
    version: int
    address: int
    late: bool
    payload: bytes | None
    state: int


class PlainShard:
    """One shard: lists, numbers, and the rules they follow."""

    def __init__(self, number: int, options: StreamOptions) -> None:
        self.number = number
        self.options = options
        self.rows: list[PlainRow] = []
        self.written_ms: dict[int, int] = {}
        self.schemas: dict[int, Shown] = {}
        self.next = 0
        self.committed = 0
        self.unsealed: list[Given] = []
        self.source: dict[str, int] | None = None
        self.counts: Counter[str] = Counter()
        self.transactions: dict[str, int] = {}
        self.floor = INT64_MIN
        # Caps have taken what lies below this address.
        self.cut = 0
        # Ranges of addresses that a replay no longer has; the log says which.
        self.gone: list[tuple[int, int]] = []
        self.passed: list[PlainShard] = []
        self.ends: list[int] = []

    def copy(self) -> "PlainShard":
        """Return the shard as it stands, without the way it came."""
        other = copy(self)
        other.rows, other.unsealed = [*self.rows], [*self.unsealed]
        other.written_ms, other.schemas = {**self.written_ms}, {**self.schemas}
        other.counts, other.transactions = Counter(self.counts), dict(self.transactions)
        other.passed, other.ends = [], [*self.ends]
        return other

    def begin_step(self) -> None:
        """Forget the way; from here on a crash may leave what is written, or any later state."""
        self.ends = [self.committed, self.next]
        self.passed = [self.copy()]

    def after_crash(self) -> list["PlainShard"]:
        """Return what an opener may find: any state passed, all of it adopted."""
        states = [state.copy() for state in self.passed]
        for state in states:
            state.unsealed = []
            state.committed = state.next
        return states

    # --- writing ---------------------------------------------------------------------------

    def append(self, record: Given, now: int) -> None:
        """Take one record; a full block is written at once."""
        self.unsealed.append(record)
        size = sum(len(one.payload or b"") for one in self.unsealed)
        if len(self.unsealed) >= self.options.block_records or size >= self.options.block_bytes:
            self.seal(now)

    def seal(self, now: int) -> None:
        """Write the records that wait for their block."""
        if self.unsealed:
            self.write(self.unsealed, now)
            self.unsealed = []

    def append_batch(
        self,
        records: Sequence[Given],
        now: int,
        addresses: Sequence[int] | None = None,
        source: dict[str, int] | None = None,
        *,
        brings: bool | None = None,
    ) -> Counter[str]:
        """Write a batch behind what waits; rows whose address is stored are skipped."""
        self.seal(now)
        if brings is None:
            brings = brings_schemas(records)
        if addresses is None:
            return self.write(records, now, source=source, brings=brings)
        old = [address for address in addresses if address < self.next]
        if not all(self._has_stored(address) for address in old):
            raise RefusedError
        self.counts["duplicates"] += len(old)
        report = self.write(records[len(old) :], now, addresses[len(old) :], source, brings=brings)
        report["duplicates"] += len(old)
        return report

    def append_transaction(self, name: str, records: Sequence[Given], now: int) -> None:
        """Write a transaction's rows behind everything else; all of it is durable at the end."""
        self.commit(now)
        self.write(records, now)
        self.transactions[name] = len(records)
        self.commit(now)

    def commit(self, now: int) -> None:
        """Make all that was taken durable."""
        self.seal(now)
        self.committed = self.next

    def write(
        self,
        records: Sequence[Given],
        now: int,
        addresses: Sequence[int] | None = None,
        source: dict[str, int] | None = None,
        *,
        brings: bool = False,
    ) -> Counter[str]:
        """Write rows in one piece and return what became of them."""
        report: Counter[str] = Counter()
        if addresses is None:
            accepted = [record for record in records if record.primary >= self.floor]
            report["expired"] = len(records) - len(accepted)
            records, addresses = accepted, range(self.next, self.next + len(accepted))
        report["appended"] = len(records)
        for record, address in zip(records, addresses, strict=True):
            self._take(record, address, now, report)
            self.schemas[address] = shown_of(record.version) if brings else NOTHING
        if records:
            self.next = addresses[-1] + 1
        if source is not None:
            self.source = source
            self.next = max(self.next, source.get("next", 0))
        self.counts += report
        self.ends.append(self.next)
        self.passed.append(self.copy())
        return report

    # --- the rules -------------------------------------------------------------------------

    def _take(self, record: Given, address: int, now: int, report: Counter[str]) -> None:
        state = NORMAL
        largest = self._largest_normal(record.secondary)
        if record.primary < self.floor:
            state = EXPIRED
            report["expired"] += 1
        elif self._is_ahead(record.primary, now):
            state = AHEAD
            report["ahead"] += 1
        elif largest is not None and record.primary < largest - self.options.jitter:
            state = LATE
            report["late"] += 1
        elif largest is not None and record.primary < largest:
            report["absorbed"] += 1
        row = PlainRow(
            self.number,
            record.secondary,
            record.primary,
            record.version,
            address,
            state in (LATE, AHEAD),
            record.payload,
            state,
        )
        self.rows.append(row)
        self.written_ms[address] = now * 1000 // UNITS_PER_SECOND.get(self.options.unit, 1)

    def _largest_normal(self, secondary: int) -> int | None:
        normal = [row for row in self.rows if row.state == NORMAL and row.secondary == secondary]
        return max((row.primary for row in normal), default=None)

    def _is_ahead(self, primary: int, now: int) -> bool:
        unit = self.options.unit
        if unit == "sequence":
            return False
        bound = self.options.ahead_max
        return primary > now + (DAY_SECONDS * UNITS_PER_SECOND[unit] if bound is None else bound)

    def _has_stored(self, address: int) -> bool:
        return any(row.address == address for row in self.rows) or self._is_gone(address)

    def _is_gone(self, address: int) -> bool:
        return any(start <= address < end for start, end in self.gone)

    # --- expiry ----------------------------------------------------------------------------

    def expire(self, floor: int) -> None:
        """Hide what lies below a floor, and judge by it from now on."""
        if self.options.retention is not None:
            self.floor = max(self.floor, floor)

    def cap(self, caps: GivenCaps, blocks: Sequence[tuple[int, int]]) -> None:
        """Hide what came before so many rows and bytes; the last of the blocks is not too much.

        What is held is what a replay has, and rows ahead that have outlived it.
        """
        shards = self.options.shards
        if caps.records_max is not None:
            held = [row for row in self.rows if row.address < self.committed and self._holds(row)]
            over = len(held) - -(-caps.records_max // shards)
            if over > 0:
                self.cut = max(self.cut, held[over - 1].address + 1)
        if caps.bytes_max is not None:
            size = sum(size for _, size in blocks)
            for end, block in blocks[:-1]:
                if size > -(-caps.bytes_max // shards):
                    self.cut, size = max(self.cut, end), size - block

    def _holds(self, row: PlainRow) -> bool:
        if not self._is_gone(row.address):
            return True
        return row.state == AHEAD and row.primary >= self.floor and row.address >= self.cut

    def release(self, gone: list[tuple[int, int]]) -> None:
        """Take over what the log says it no longer has; it must be nothing that stays."""
        self.gone = gone
        for row in self.rows:
            if self._is_gone(row.address):
                assert self._has_expired(row) or row.state == AHEAD
        for start, end in gone:
            # Nothing is cut past rows ahead alone.
            last = [row for row in self.rows if start <= row.address < end]
            assert not last or any(map(self._has_expired, last[-self.options.block_records :]))

    def _has_expired(self, row: PlainRow) -> bool:
        return row.primary < self.floor or row.state == EXPIRED or row.address < self.cut

    # --- reading ---------------------------------------------------------------------------

    def replayed(self) -> list[PlainRow]:
        """Return the committed rows in order of arrival, as far as a replay still has them."""
        return [
            row
            for row in self.rows
            if row.address < self.committed and not self._is_gone(row.address)
        ]

    def visible(self) -> list[PlainRow]:
        """Return the committed rows that have not expired in order of arrival."""
        return [
            row for row in self.rows if row.address < self.committed and not self._has_expired(row)
        ]

    def refuses(self, start: int | None, end: int | None) -> bool:
        """Tell whether a replay of these addresses would be short."""
        first = start
        if first is None:
            first = next((gone_end for begin, gone_end in self.gone if begin == 0), 0)
        last = self.committed if end is None else min(end, self.committed)
        return any(first < gone_end and begin < last for begin, gone_end in self.gone) and (
            first < last
        )
