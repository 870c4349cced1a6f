"""What verify compares beside the blocks: dead letters, counters, tail, transactions, keys."""

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


class DeadLetterCheck:
    """Compares dead letters with the blocks' addresses; both ascend."""

    def __init__(self, view: ShardSnapshot, state: ShardState, findings: Findings) -> None:
        """Look at the dead letters of a view."""
        self._findings = findings
        self._state = state
        self._letters: Iterator[tuple[int, bytes]] = view.dead_letters(0, ADDRESS_MAX)
        self._last = -1
        self._ahead: int | None = None
        self.count = 0

    def compare(self, block: Block) -> None:
        """Look at the dead letters up to the end of a block."""
        addresses = block.addresses
        for address in self._until(block.last + 1):
            if address >= block.first and (addresses == address).any():
                what = "an address is a row's and a dead letter's"
                self._findings.tell(
                    "dead letter", what, address, address + 1, dead_letter_key(address)
                )

    def finish(self) -> int:
        """Look at the rest; return the exclusive end of all."""
        end = self._state.tail.next
        for address in self._until(ADDRESS_MAX):
            if address >= end:
                what = "a dead letter lies above the tail"
                self._findings.tell(
                    "dead letter", what, address, address + 1, dead_letter_key(address)
                )
        return self._last + 1

    def _until(self, end: int) -> Iterator[int]:
        while True:
            if self._ahead is None:
                self._ahead = next((address for address, _ in self._letters), None)
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
        "passed_over": passed,
    }
    for name, kept in state.tail.counters._asdict().items():
        if name == "jitter_absorbed" and not is_exact:
            # Without the heads of rows that are gone late ones look as if they had been absorbed.
            continue
        # Of blocks that were trimmed, small neighbours have become one.
        is_joined = name == "blocks" and state.trimmed > state.born
        is_bound = not is_exact or name == "expired" or is_joined
        if name == "duplicates" or (kept == expected[name] or (is_bound and kept > expected[name])):
            continue
        what = f"the counter {name} is {kept}, and there are {expected[name]}"
        findings.tell("counter", what, key=KEY_NEXT)
    dropped = state.dead_letters_dropped
    if not 0 <= dropped <= cleared:
        what = f"{dropped} dead letters were dropped, of {cleared} that were cleared"
        findings.tell("counter", what, key=KEY_DROPPED)


def check_largest_of_heads(view: ShardSnapshot, largest: int, findings: Findings) -> None:
    """Compare what is noted as above all heads on disk with the largest primary of some."""
    noted = decode_most(view.value_at(KEY_HEADS_MOST))
    if noted < largest:
        what = f"no head is said to be above primary {noted}, and one is at {largest}"
        findings.tell("head", what, key=KEY_HEADS_MOST)


def check_tail(state: ShardState, lineage: bytes, dead_end: int, findings: Findings) -> None:
    """Compare the tail with what it must lie above, and the shard with its place."""
    tail = state.tail
    source = 0 if state.source is None else state.source.get("next", 0)
    ends = {
        "the last block's end": tail.blocks_end,
        "the last dead letter's": dead_end,
        "what was passed over": max((gap.end for gap in state.passed), default=0),
        "the heads on disk": state.heads_through,
        "the log's start": max(state.born, state.start),
    }
    for name, end in ends.items():
        if end > tail.next:
            what = f"the tail is {tail.next}, below {name}, {end}"
            findings.tell("tail", what, tail.next, end, KEY_NEXT)
    if type(source) is not int or not 0 <= source <= tail.next:
        what = f"the source goes on at {source!r}, and the tail is {tail.next}"
        findings.tell("tail", what, key=KEY_SOURCE)
    if state.lineage != lineage:
        findings.tell("tail", "the store names another lineage than the shard's")


def check_places(view: ShardSnapshot, state: ShardState, findings: Findings) -> None:
    """Compare the ids of transactions with the places that the ledger counts."""
    ledger = state.ledger
    if ledger is None:
        return
    places = 0
    for kind, kept in ((KIND_NAMED, ledger.named), (KIND_NUMBERED, ledger.numbered)):
        places += _check_kind(view, kind, kept, findings)
    done = sum(1 for _ in view.meta_items(PREFIX_DONE, prefix_end(PREFIX_DONE)))
    if done != places:
        what = f"{done} ids of finished transactions have {places} places"
        findings.tell("transaction", what, key=PREFIX_DONE)
    if ledger.begun is not None and ledger.begun[1].rows_done >= ledger.begun[1].rows_total:
        what = f"transaction {ledger.begun[0]!r} is begun and has all its rows"
        findings.tell("transaction", what, key=KEY_TRANSACTIONS)


def _check_kind(view: ShardSnapshot, kind: int, kept: Places, findings: Findings) -> int:
    found = 0
    for key, name in view.meta_items(place_key(kind, 0), PREFIX_PLACE + bytes([kind + 1])):
        found += 1
        place = int.from_bytes(key[2:], "big")
        if not kept.first <= place < kept.next:
            what = f"place {place} is none from {kept.first} to before {kept.next}"
            findings.tell("transaction", what, key=key)
        text = name.decode(errors="replace")
        value = view.value_at(done_key(text))
        if value is None:
            findings.tell("transaction", f"transaction {text!r} has a place and no entry", key=key)
        elif len(value) != _PROGRESS_BYTES or not decode_progress(value).is_done:
            what = f"transaction {text!r} has a place and is not done"
            findings.tell("transaction", what, key=done_key(text))
    if found != kept.next - kept.first:
        what = f"{found} places of {kept.next - kept.first} are there, of kind {kind}"
        findings.tell("transaction", what, key=KEY_TRANSACTIONS)
    return found


def check_keys(view: ShardSnapshot, findings: Findings) -> None:
    """Find keys of the default family that are none of the log's."""
    start = b""
    for prefix in (*(bytes([one]) for one in PREFIXES), None):
        for key, _ in view.meta_items(start, prefix):
            findings.tell("key", "a key that the log does not write", key=key)
        start = b"" if prefix is None else prefix_end(prefix)
