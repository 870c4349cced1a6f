"""Where a snapshot of several shards ends, so that it shows each transaction whole or not at all.

A transaction becomes visible shard by shard. Its manifest is there before the first of them shows
it, and goes when the last of them does. So the ends are read twice, and before each time the
manifests:

    earlier = manifests    lower = ends    under_way = manifests    upper = ends

The snapshot ends at `upper`. There each transaction is of one of three kinds:

* `under_way` has it: its manifest names its shards, and each is asked whether it shows it.
* It was over by then: every shard shows it.
* It was published behind that: wherever it is shown, its rows lie at or above `lower`. Shards
  remember what they took last, and a transaction says how many rows it has in all of them.

Of a transaction that some shards show and others do not, the rows that are shown are hidden: they
lie side by side in a shard. Rows of others before and behind them stay. A writer is never waited
for. Only where a shard forgets transactions faster than they can be asked for is all done again, a
few times.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from storage_core.catalog.stream_file import StreamFiles
from storage_core.errors import UnavailableError
from storage_core.format.part_entry import ShardParts
from storage_core.format.shard_state import AddressRange
from storage_core.parts.snapshot import parts_in
from storage_core.platform.clock import SystemClock
from storage_core.platform.durable_file import reading_errors
from storage_core.read.landings import Landed, Landings, landings_in
from storage_core.read.snapshot import ShardSnapshot
from storage_core.reader import StreamReader
from storage_core.transactions.manifest import Manifest, Staging, staged_transactions

_TRIES_MAX: Final = 16

Ends = Mapping[int, int]
# The rows of a transaction by shard.
Places = Mapping[int, Landed]


@dataclass(frozen=True, slots=True)
class SnapshotShard:
    """A shard in a snapshot of several.

    Attributes:
        end: The exclusive end of its rows.
        parts: Its parts, of which no row lies above the end. Among their gaps are the rows of
            transactions that other shards do not show.
    """

    end: int
    parts: ShardParts


def snapshot_of_shards(reader: StreamReader, files: StreamFiles) -> dict[int, SnapshotShard]:
    """Return all shards of a stream, with each transaction in all of its shards or in none.

    Raises:
        CorruptionError: A manifest is damaged.
        UnavailableError: Transactions land faster than they can be told apart.
    """
    first = {n: reader.shard(n).ask(_parts_and_landings) for n in reader.committed()}
    parts = {n: one for n, (one, _) in first.items()}
    ends: Ends
    if len(first) > 1 and reader.origin is None:
        landings = {n: one for n, (_, one) in first.items()}
        ends, hidden = _ends_and_hidden(reader, files, landings)
    else:
        ends, hidden = {n: end for n, end in reader.committed().items() if n in first}, {}
    return {n: SnapshotShard(ends[n], _with_gaps(parts[n], hidden.get(n, []))) for n in first}


def _parts_and_landings(view: ShardSnapshot) -> tuple[ShardParts, Landings]:
    # IMPORTANT: of one view; what is behind `sealed` is in no part of it.
    return parts_in(view), landings_in(view)


def _with_gaps(parts: ShardParts, hidden: list[AddressRange]) -> ShardParts:
    return replace(parts, gaps=(*parts.gaps, *sorted(hidden))) if hidden else parts


def _ends_and_hidden(
    reader: StreamReader, files: StreamFiles, landings: Mapping[int, Landings]
) -> tuple[Ends, dict[int, list[AddressRange]]]:
    """Return where each shard ends, and which rows below that are not shown."""
    for _ in range(_TRIES_MAX):
        earlier = _manifests(files)
        lower = reader.committed()
        under_way = _manifests(files)
        upper = reader.committed()
        landings = _looked_at(reader, landings, lower, upper, under_way)
        hidden = _of_some_shards(landings, lower, upper, earlier, under_way)
        if hidden is not None and not _may_have_forgotten(files, landings, under_way):
            return upper, hidden
    message = "transactions land faster than they can be told apart; ask again"
    raise UnavailableError(message, stream=files.meta.name)


def _manifests(files: StreamFiles) -> dict[str, Manifest]:
    """Return the transactions that are published and not yet over."""
    staging = Staging(files.staging_directory, SystemClock())
    with reading_errors(staging.directory, "looking for transactions"):
        return {one.transaction: one for one in staged_transactions(staging)}


def _looked_at(
    reader: StreamReader,
    earlier: Mapping[int, Landings],
    lower: Ends,
    upper: Ends,
    under_way: Mapping[str, Manifest],
) -> dict[int, Landings]:
    """Return what has landed since, of the shards that matter."""
    nothing: dict[str, Landed] = {}
    found = {n: Landings(one.committed, one.ledger, nothing, nothing) for n, one in earlier.items()}

    def look(shards: Iterable[int]) -> None:
        for n in shards:
            names = [name for name, one in under_way.items() if n in one.shards]
            asked = partial(landings_in, earlier=earlier[n].ledger, names=names)
            found[n] = reader.shard(n).ask(asked)

    of_manifests = {n for one in under_way.values() for n in one.shards}
    first = {n for n in earlier if upper[n] > lower[n] or n in of_manifests}
    look(first)
    if any(_published_later(found, lower, upper)):
        # It may have come before to others.
        look(n for n in earlier.keys() - first if upper[n] != earlier[n].committed)
    return found


def _of_some_shards(
    landings: Mapping[int, Landings],
    lower: Ends,
    upper: Ends,
    earlier: Mapping[str, Manifest],
    under_way: Mapping[str, Manifest],
) -> dict[int, list[AddressRange]] | None:
    """Return the rows of transactions that not all of their shards show; None if unknown."""
    hidden: dict[int, list[AddressRange]] = {}
    for name, manifest in under_way.items():
        shown = _shown({n: one.named for n, one in landings.items()}, name, upper)
        if _rows(shown) != manifest.rows_total:
            _hide(hidden, shown)
    # Where a shard grew between the two looks and has forgotten, it may show half of anything.
    if any(upper[n] > lower[n] and not one.is_whole for n, one in landings.items()):
        return None
    for name, shown in _published_later(landings, lower, upper):
        if name in earlier or name in under_way:
            continue
        if _rows(shown) != next(iter(shown.values())).rows_of_all_shards:
            if not all(one.is_whole for one in landings.values()):
                return None
            _hide(hidden, shown)
    return hidden


def _published_later(
    landings: Mapping[int, Landings], lower: Ends, upper: Ends
) -> Iterator[tuple[str, Places]]:
    """Yield the transactions that a shard has come to show between the two looks."""
    since = {n: one.since for n, one in landings.items()}
    for name in {name for one in since.values() for name in one}:
        shown = _shown(since, name, upper)
        if any(one.rows.start >= lower[n] for n, one in shown.items()):
            yield name, shown


def _shown(known: Mapping[int, Mapping[str, Landed]], name: str, upper: Ends) -> Places:
    """Return the shards that show a transaction, and its rows there."""
    found = {n: one[name] for n, one in known.items() if name in one}
    return {n: one for n, one in found.items() if one.rows.end <= upper[n]}


def _rows(shown: Places) -> int:
    return sum(one.rows.end - one.rows.start for one in shown.values())


def _hide(hidden: dict[int, list[AddressRange]], shown: Places) -> None:
    for n, one in shown.items():
        if one.rows.start < one.rows.end:
            hidden.setdefault(n, []).append(one.rows)


def _may_have_forgotten(
    files: StreamFiles, landings: Mapping[int, Landings], under_way: Mapping[str, Manifest]
) -> bool:
    """Tell whether a shard may have had a transaction that it does not know by name.

    While the manifest is there none forgets it.
    """
    unsure = {
        name
        for name, manifest in under_way.items()
        for n in manifest.shards
        if name not in landings[n].named and landings[n].has_forgotten
    }
    return bool(unsure) and not unsure <= _manifests(files).keys()
