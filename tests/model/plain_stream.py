"""A stream as plain Python lists: its shards, and every read as a filter and a sort."""

from collections import Counter
from collections.abc import Iterable, Sequence

from storage_core import StreamOptions
from tests.model.keyed import has_keys, shard_of
from tests.model.plain_shard import GoneError, PlainRow, PlainShard, RefusedError
from tests.model.schemas import brings_schemas
from tests.strategies import PAYLOAD_BYTES_MAX, Given, GivenCaps, Question

# Of a shard's blocks, where each ends, and its bytes.
Blocks = Sequence[tuple[int, int]]

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class PlainStream:
    """What the stream must answer."""

    def __init__(self, options: StreamOptions) -> None:
        self.shards = [PlainShard(number, options) for number in range(options.shards)]
        self._has_keys = has_keys(options)

    def begin_step(self) -> None:
        """Let every shard forget the way it came."""
        for shard in self.shards:
            shard.begin_step()

    def shard_of(self, secondary: int) -> PlainShard:
        """Return the shard that an id, or the key it stands for, routes to."""
        count = len(self.shards)
        return self.shards[shard_of(secondary, count) if self._has_keys else secondary % count]

    # --- writing ---------------------------------------------------------------------------

    def append(self, record: Given, now: int) -> None:
        """Take one record; where records belong to keys it is a batch."""
        if self._has_keys:
            self.append_batch([record], now)
            return
        _refuse_too_large([record])
        self.shard_of(record.secondary).append(record, now)

    def append_batch(self, records: Sequence[Given], now: int) -> Counter[str]:
        """Write a batch, each shard's part in one piece."""
        _refuse_too_large(records)
        report: Counter[str] = Counter()
        if len(self.shards) == 1:
            return self.shards[0].append_batch(records, now)
        for shard, part in self._parts(records):
            report += shard.append_batch(part, now, brings=brings_schemas(records))
        return report

    def transaction(self, name: str, records: Sequence[Given], now: int) -> None:
        """Do a transaction once: a replay changes nothing, with another total it is refused."""
        total = self.transaction_total(name)
        if total is not None:
            if total != len(records):
                raise RefusedError
            return
        _refuse_too_large(records)
        parts = [*self._parts(records)] or [(self.shards[0], [])]
        for shard, part in parts:
            shard.append_transaction(name, part, now)

    def finish_after_crash(self, name: str, records: Sequence[Given], now: int) -> None:
        """Let every state a crash may leave go on to the end of a transaction that was begun.

        Its rows were all staged before the first writing call, so an opener finishes it.
        """
        for shard, part in [*self._parts(records)] or [(self.shards[0], [])]:
            before = [state for state in shard.passed if name not in state.transactions]
            for state in before:
                state.unsealed = []
                state.append_transaction(name, part, now)
            shard.passed = before

    def transaction_total(self, name: str) -> int | None:
        """Return the rows of a transaction that is known."""
        known = [s.transactions[name] for s in self.shards if name in s.transactions]
        return sum(known) if known else None

    def commit(self, now: int) -> dict[int, int]:
        """Make everything durable."""
        for shard in self.shards:
            shard.commit(now)
        return self.committed()

    def expire(self, floor: int, caps: GivenCaps, blocks: Sequence[Blocks]) -> list[int]:
        """Let everything below a floor expire, and above caps; count what caps have ever taken."""
        for shard, those in zip(self.shards, blocks, strict=True):
            shard.expire(floor)
            shard.cap(caps, those)
        return self.taken_below([shard.cut for shard in self.shards])

    def taken_below(self, cuts: Sequence[int]) -> list[int]:
        """Count each shard's rows below an address."""
        return [
            sum(row.address < cut for row in shard.rows)
            for shard, cut in zip(self.shards, cuts, strict=True)
        ]

    def expire_in_passing(self, floor: int, caps: GivenCaps, blocks: Sequence[Blocks]) -> None:
        """Let every state a crash may leave have come as far as this floor and these caps."""
        for shard, those in zip(self.shards, blocks, strict=True):
            for state in shard.passed:
                state.expire(floor)
                state.cap(caps, those)

    def discard_builder(self) -> None:
        """Forget the records that wait for their block."""
        for shard in self.shards:
            shard.unsealed = []

    def _parts(self, records: Sequence[Given]) -> Iterable[tuple[PlainShard, list[Given]]]:
        for shard in self.shards:
            part = [one for one in records if self.shard_of(one.secondary) is shard]
            if part:
                yield shard, part

    # --- what it says of itself ------------------------------------------------------------

    def committed(self) -> dict[int, int]:
        """Return each shard's committed."""
        return {shard.number: shard.committed for shard in self.shards}

    def counts(self) -> Counter[str]:
        """Return what all shards have counted."""
        return sum((shard.counts for shard in self.shards), Counter())

    # --- reading ---------------------------------------------------------------------------

    def scan(self, question: Question) -> list[PlainRow]:
        """Return the rows asked for in order of arrival, shard by shard."""
        start, end = _range(question)
        asked = _ids(question)
        return [
            row
            for shard in self.shards
            for row in shard.shown()
            if start <= row.primary <= end
            and (asked is None or row.secondary in asked)
            and (question.versions is None or row.version in question.versions)
        ]

    def read(self, question: Question) -> list[PlainRow]:
        """Return the rows asked for in the order of `read`, so many an id."""
        rows = sorted(
            self.scan(question),
            key=lambda row: (row.secondary, row.primary, row.shard, row.address),
        )
        if question.latest_by is not None:
            rows = self._newest(rows, question)
        if question.limit == 0:
            return rows
        seen: Counter[int] = Counter()
        kept = []
        for row in rows:
            seen[row.secondary] += 1
            if seen[row.secondary] <= question.limit:
                kept.append(row)
        return kept

    def _newest(self, rows: list[PlainRow], question: Question) -> list[PlainRow]:
        """Return of rows in order those that are the newest of their primary, or of their id.

        None of them has a key but what stands for its id.
        """
        newest: dict[tuple[int, ...], PlainRow] = {}
        for row in sorted(rows, key=self._rank):
            is_each = question.latest_by == "primary"
            newest[(row.secondary, row.primary) if is_each else (row.secondary,)] = row
        winners = set(newest.values())
        won = [row for row in rows if row in winners]
        return [row for row in won if question.tombstones or row.payload is not None]

    def latest(self, ids: int | list[int] | None) -> dict[int, PlainRow]:
        """Return each id's row with the largest primary, of equals the last written."""
        newest: dict[int, PlainRow] = {}
        for row in sorted(self.scan(question_about(ids)), key=self._rank):
            newest[row.secondary] = row
        return newest

    def _rank(self, row: PlainRow) -> tuple[int, int, int, int]:
        written_ms = self.shards[row.shard].written_ms[row.address]
        return row.primary, written_ms, row.shard, row.address

    def earliest(self, ids: int | list[int] | None, from_: int) -> int | None:
        """Return the least primary from there on."""
        return min((row.primary for row in self.scan(question_about(ids, from_))), default=None)

    def available(self, question: Question) -> tuple[int | None, list[PlainRow]]:
        """Return where the first rows from there on end, and these rows."""
        first = self.earliest(question.ids, question.from_)
        if first is None:
            return None, []
        last = min(first + question.width, INT64_MAX)
        return last, self.read(question_about(question.ids, first, last, question.limit))

    def tail(self, shard: int, start: int | None, end: int | None) -> list[PlainRow]:
        """Return a shard's rows between two addresses."""
        first = start or 0
        last = INT64_MAX if end is None else end
        if first > last:
            raise RefusedError
        if self.shards[shard].refuses(start, end):
            raise GoneError
        return [row for row in self.shards[shard].replayed() if first <= row.address < last]


def question_about(
    ids: int | list[int] | None = None,
    start: int | None = None,
    end: int | None = None,
    limit: int = 0,
) -> Question:
    """Return a question with these conditions and no others."""
    return Question(ids, start, end, limit, None, None, 0, 0)


def _range(question: Question) -> tuple[int, int]:
    start = INT64_MIN if question.start is None else question.start
    end = INT64_MAX if question.end is None else question.end
    if start > end:
        raise RefusedError
    return start, end


def _ids(question: Question) -> list[int] | None:
    return [question.ids] if isinstance(question.ids, int) else question.ids


def _refuse_too_large(records: Sequence[Given]) -> None:
    if any(len(record.payload or b"") > PAYLOAD_BYTES_MAX for record in records):
        raise RefusedError
