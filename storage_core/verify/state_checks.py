"""Checks beside the blocks: dead letters, counters, tail, transactions, unknown keys."""

from collections.abc import Iterator
from typing import Final

from storage_core.format.block import Block
from storage_core.format.counters import Counters
from storage_core.format.head import decode_most
from storage_core.format.keys import (
    ADDRESS_MAX,
    KIND_NAMED,
    KIND_NUMBERED,
    PREFIX_DONE,
    PREFIX_PLACE,
    PREFIXES,
    dead_letter_key,
    done_key,
    place_key,
    prefix_end,
)
from storage_core.format.shard_state import (
    KEY_DROPPED,
    KEY_HEADS_MOST,
    KEY_NEXT,
    KEY_SOURCE,
    KEY_TRANSACTIONS,
    Places,
    ShardState,
    decode_progress,
)
from storage_core.read.snapshot import ShardSnapshot
from storage_core.verify.findings import Findings

_PROGRESS_BYTES: Final = 32
# What a log that began from the lake knows of the rows it began with by about.
_ESTIMATES: Final = frozenset({"jitter_absorbed", "blocks", "payload_bytes"})


class DeadLetterCheck:
    """Compares dead letters with the blocks' addresses; both ascend."""

    def __init__(self, view: ShardSnapshot, state: ShardState, findings: Findings) -> None:
        """Look at the dead letters of a view."""
        self._findings = findings
        self._state = state
        self._dead_letters: Iterator[tuple[int, bytes]] = view.dead_letters(0, ADDRESS_MAX)
        self._last = -1
        self._ahead: int | None = None
        self.count = 0

    def compare(self, block: Block) -> None:
        """Look at the dead letters up to the end of a block."""
        addresses = block.addresses
        for address in self._until(block.last + 1):
            if address >= block.first and (addresses == address).any():
                message = "an address has both a row and a dead letter"
                self._findings.add(
                    "dead letter", message, address, address + 1, dead_letter_key(address)
                )

    def finish(self) -> int:
        """Look at the rest; return the exclusive end of all."""
        end = self._state.tail.next
        for address in self._until(ADDRESS_MAX):
            if address >= end:
                message = "a dead letter lies above the tail"
                self._findings.add(
                    "dead letter", message, address, address + 1, dead_letter_key(address)
                )
        return self._last + 1

    def _until(self, end: int) -> Iterator[int]:
        while True:
            if self._ahead is None:
                self._ahead = next((address for address, _ in self._dead_letters), None)
            if self._ahead is None or self._ahead >= end:
                return
            address, self._ahead = self._ahead, None
            self._last = address
            self.count += 1
            yield address


def check_counters(
    state: ShardState, counted: Counters, dead_letters: int, findings: Findings, *, is_exact: bool
) -> None:
    """Compare the shard's counters with what the blocks add up to."""
    passed = sum(gap.end - gap.start for gap in state.passed)
    cleared = state.tail.counters.dead_letters_cleared
    expected = counted._asdict() | {
        "dead_letters": dead_letters + cleared,
        "dead_letters_cleared": cleared,
        "skipped": passed,
    }
    for name, stored in state.tail.counters._asdict().items():
        if name == "jitter_absorbed" and not is_exact:
            # Without the heads of rows that are gone late ones look as if they had been absorbed.
            continue
        if name in _ESTIMATES and state.lake_predecessor is not None:
            continue
        # Of blocks that were trimmed, small neighbours have become one.
        is_joined = name == "blocks" and state.trimmed > state.born
        is_bound = not is_exact or name == "expired" or is_joined
        if (
            name == "duplicates"
            or stored == expected[name]
            or (is_bound and stored > expected[name])
        ):
            continue
        message = f"counter {name} is {stored}, but the log has {expected[name]}"
        findings.add("counter", message, key=KEY_NEXT)
    others = sum(state.cleared)
    if min(state.cleared) < 0 or others > cleared:
        message = (
            f"{others} dead letters are counted as dropped, retried or discarded, but only "
            f"{cleared} as cleared"
        )
        findings.add("counter", message, key=KEY_DROPPED)


def check_largest_of_heads(view: ShardSnapshot, largest: int, findings: Findings) -> None:
    """Compare the stored upper bound of all heads with the largest primary of some."""
    bound = decode_most(view.value_at(KEY_HEADS_MOST))
    if bound < largest:
        message = f"the upper bound of heads is primary {bound}, but a head is at {largest}"
        findings.add("head", message, key=KEY_HEADS_MOST)


def check_tail(state: ShardState, lineage: bytes, dead_end: int, findings: Findings) -> None:
    """Compare the tail with what it must lie above, and the shard with its place."""
    tail = state.tail
    source = 0 if state.source is None else state.source.get("next", 0)
    ends = {
        "the last block's end": tail.blocks_end,
        "the last dead letter's end": dead_end,
        "the end of skipped addresses": max((gap.end for gap in state.passed), default=0),
        "the heads on disk": state.heads_through,
        "the log's start": max(state.born, state.start),
    }
    for name, end in ends.items():
        if end > tail.next:
            message = f"the tail is {tail.next}, but {name} is {end}"
            findings.add("tail", message, tail.next, end, KEY_NEXT)
    if type(source) is not int or not 0 <= source <= tail.next:
        message = f"the next address of the source is {source!r}, but the tail is {tail.next}"
        findings.add("tail", message, key=KEY_SOURCE)
    if state.lineage != lineage:
        findings.add("tail", "the store has the lineage of another shard")


def check_places(view: ShardSnapshot, state: ShardState, findings: Findings) -> None:
    """Compare the ids of transactions with the slots that the ledger counts."""
    ledger = state.ledger
    if ledger is None:
        return
    slots_total = 0
    for kind, slots in ((KIND_NAMED, ledger.named), (KIND_NUMBERED, ledger.numbered)):
        slots_total += _check_slots(view, kind, slots, findings)
    done = sum(1 for _ in view.meta_items(PREFIX_DONE, prefix_end(PREFIX_DONE)))
    if done != slots_total:
        message = f"{done} finished transactions have {slots_total} slots"
        findings.add("transaction", message, key=PREFIX_DONE)
    if ledger.begun is not None and ledger.begun[1].rows_done >= ledger.begun[1].rows_total:
        message = f"transaction {ledger.begun[0]!r} is recorded as unfinished, but has all its rows"
        findings.add("transaction", message, key=KEY_TRANSACTIONS)


def _check_slots(view: ShardSnapshot, kind: int, slots: Places, findings: Findings) -> int:
    stored = 0
    for key, name in view.meta_items(place_key(kind, 0), PREFIX_PLACE + bytes([kind + 1])):
        stored += 1
        slot = int.from_bytes(key[2:], "big")
        if not slots.first <= slot < slots.next:
            message = f"transaction slot {slot} is outside [{slots.first}, {slots.next})"
            findings.add("transaction", message, key=key)
        text = name.decode(errors="replace")
        value = view.value_at(done_key(text))
        if value is None:
            findings.add("transaction", f"transaction {text!r} has a slot, but no entry", key=key)
        elif len(value) != _PROGRESS_BYTES or not decode_progress(value).is_done:
            message = f"transaction {text!r} has a slot, but is not done"
            findings.add("transaction", message, key=done_key(text))
    expected = slots.next - slots.first
    if stored != expected:
        message = f"{stored} transaction slots of kind {kind} are stored, expected {expected}"
        findings.add("transaction", message, key=KEY_TRANSACTIONS)
    return stored


def check_keys(view: ShardSnapshot, findings: Findings) -> None:
    """Find unknown keys of the default family."""
    start = b""
    for prefix in (*(bytes([one]) for one in PREFIXES), None):
        for key, _ in view.meta_items(start, prefix):
            findings.add("key", "unknown key", key=key)
        start = b"" if prefix is None else prefix_end(prefix)
