"""Transactions across shards: where a snapshot ends so that each is whole or absent.

A transaction becomes visible shard by shard. Its manifest exists before the first shard shows it,
and is deleted after the last one does. So the ends of the shards are read twice, and the manifests
before each time:

    earlier = manifests    lower = ends    pending = manifests    upper = ends

The snapshot ends at `upper`. There are three kinds of transactions:

* Pending: the manifest names its shards, and each is asked whether it shows the transaction.
* Finished by then: every shard shows it.
* Published later: where it is visible, its rows are at or above `lower`. A shard remembers its last
  transactions, and each of these knows how many rows it has in all shards.

If only some shards show a transaction, its rows are hidden; they are contiguous in a shard, and
other rows stay. No writer is waited for. Only if a shard forgets transactions faster than they can
be looked up, all is done again, a few times.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from storage_core.catalog.stream_file import StreamFiles
from storage_core.errors import InvalidRequestError, UnavailableError
from storage_core.format.part_entry import ShardParts
from storage_core.format.shard_state import AddressRange
from storage_core.parts.snapshot import parts_in
from storage_core.platform.clock import SystemClock
from storage_core.platform.durable_file import reading_errors
from storage_core.read.follow.follower import ShardFollower
from storage_core.read.landings import Landed, Landings, landings_in
from storage_core.read.snapshot import ShardSnapshot
from storage_core.reader import StreamReader
from storage_core.transactions.manifest import Manifest, Staging, staged_transactions

_TRIES_MAX: Final = 16

Ends = Mapping[int, int]
# The rows of a transaction by shard.
RowsByShard = Mapping[int, Landed]


@dataclass(frozen=True, slots=True)
class RowsEpoch:
    """As long as it is the same, committed rows stay as they were read, apart from new ones.

    Attributes:
        instance: How often the shard's store was left for a newer one.
        lost: The rows that are lost.
        gaps: The rows that were given up, whether parts have them or not.
    """

    instance: int
    lost: tuple[AddressRange, ...]
    gaps: tuple[AddressRange, ...]


@dataclass(frozen=True, slots=True)
class SnapshotShard:
    """A shard in a snapshot of several.

    Attributes:
        start: The first address that it still has or will have.
        end: The exclusive end of its rows.
        parts: Its parts, with no row at or above the end. Their gaps include the rows of
            transactions that other shards do not show.
        settled: Below it no snapshot taken later shows a row that this one does not.
        epoch: Whether rows that were read for an earlier snapshot are still its rows.
    """

    start: int
    end: int
    parts: ShardParts
    settled: int
    epoch: RowsEpoch

    @property
    def hot_start(self) -> int:
        """The first address that no part has."""
        return min(max(self.parts.sealed, self.start), self.end)


@dataclass(frozen=True, slots=True)
class _ShardView:
    """What one view of a shard says."""

    start: int
    parts: ShardParts
    landings: Landings
    epoch: RowsEpoch


def _follower(reader: StreamReader, shard: int) -> ShardFollower:
    """Return what follows a shard by its files."""
    follower = reader.shard(shard)
    if not isinstance(follower, ShardFollower):
        message = "SQL reads a stream's files: open it by the path of its root, not from a server"
        raise InvalidRequestError(message)
    return follower


def instance_of(reader: StreamReader, shard: int) -> int:
    """Return how often a shard's store was left for a newer one."""
    return _follower(reader, shard).instance


def snapshot_of_shards(reader: StreamReader, files: StreamFiles) -> dict[int, SnapshotShard]:
    """Return a snapshot of each shard of a stream, with each transaction whole or absent.

    Raises:
        CorruptionError: A manifest is damaged.
        UnavailableError: Transactions land faster than they can be looked up.
    """
    shards = {n: _view_of(reader, n) for n in reader.committed()}
    ends: Ends
    if len(shards) > 1 and reader.origin is None:
        landings = {n: shard.landings for n, shard in shards.items()}
        ends, hidden = _ends_and_hidden(reader, files, landings)
    else:
        ends, hidden = {n: end for n, end in reader.committed().items() if n in shards}, {}
    return {
        n: SnapshotShard(
            shard.start,
            ends[n],
            _with_gaps(shard.parts, hidden.get(n, [])),
            min((rows.start for rows in hidden.get(n, [])), default=ends[n]),
            shard.epoch,
        )
        for n, shard in shards.items()
    }


def _view_of(reader: StreamReader, shard: int) -> _ShardView:
    follower, born = _follower(reader, shard), reader.born(shard)

    def shard_of(view: ShardSnapshot) -> _ShardView:
        # IMPORTANT: of one view; no part of it has rows at or above `sealed`. A store that is newer
        # than the view by now has its epoch, too: rows are read behind it.
        state = view.state
        epoch = RowsEpoch(follower.instance, state.lost, state.gaps)
        return _ShardView(max(state.start, born), parts_in(view), landings_in(view), epoch)

    return follower.ask(shard_of)


def _with_gaps(parts: ShardParts, hidden: list[AddressRange]) -> ShardParts:
    return replace(parts, gaps=(*parts.gaps, *sorted(hidden))) if hidden else parts


def _ends_and_hidden(
    reader: StreamReader, files: StreamFiles, landings: Mapping[int, Landings]
) -> tuple[Ends, dict[int, list[AddressRange]]]:
    """Return the end of each shard, and the rows below it that are hidden."""
    for _ in range(_TRIES_MAX):
        earlier = _manifests(files)
        lower = reader.committed()
        pending = _manifests(files)
        upper = reader.committed()
        landings = _updated(reader, landings, lower, upper, pending)
        hidden = _rows_to_hide(landings, lower, upper, earlier, pending)
        if hidden is not None and not _may_have_forgotten(files, landings, pending):
            return upper, hidden
    message = "transactions land faster than they can be looked up; try again"
    raise UnavailableError(message, stream=files.meta.name)


def _manifests(files: StreamFiles) -> dict[str, Manifest]:
    """Return the manifests of published transactions that are not finished, by name."""
    staging = Staging(files.staging_directory, SystemClock())
    with reading_errors(staging.directory, "looking for transactions"):
        return {manifest.transaction: manifest for manifest in staged_transactions(staging)}


def _updated(
    reader: StreamReader,
    earlier: Mapping[int, Landings],
    lower: Ends,
    upper: Ends,
    pending: Mapping[str, Manifest],
) -> dict[int, Landings]:
    """Return what has landed since the earlier landings, of the shards that matter."""
    none: dict[str, Landed] = {}
    updated = {
        n: Landings(landings.committed, landings.ledger, none, none)
        for n, landings in earlier.items()
    }

    def update(shards: Iterable[int]) -> None:
        for n in shards:
            names = [name for name, manifest in pending.items() if n in manifest.shards]
            updated[n] = _follower(reader, n).ask(
                partial(landings_in, earlier=earlier[n].ledger, names=names)
            )

    in_manifests = {n for manifest in pending.values() for n in manifest.shards}
    changed = {n for n in earlier if upper[n] > lower[n] or n in in_manifests}
    update(changed)
    if any(_newly_visible(updated, lower, upper)):
        # Other shards may have had it before.
        update(n for n in earlier.keys() - changed if upper[n] != earlier[n].committed)
    return updated


def _rows_to_hide(
    landings: Mapping[int, Landings],
    lower: Ends,
    upper: Ends,
    earlier: Mapping[str, Manifest],
    pending: Mapping[str, Manifest],
) -> dict[int, list[AddressRange]] | None:
    """Return the rows of transactions that not all of their shards show; None if unknown."""
    hidden: dict[int, list[AddressRange]] = {}
    named = {n: shard.named for n, shard in landings.items()}
    for name, manifest in pending.items():
        visible = _visible(named, name, upper)
        if _row_count(visible) != manifest.rows_total:
            _hide(hidden, visible)
    # A shard that grew between the two reads and has forgotten may show part of any transaction.
    if any(upper[n] > lower[n] and not shard.is_whole for n, shard in landings.items()):
        return None
    for name, visible in _newly_visible(landings, lower, upper):
        if name in earlier or name in pending:
            continue
        if _row_count(visible) != next(iter(visible.values())).rows_of_all_shards:
            if not all(shard.is_whole for shard in landings.values()):
                return None
            _hide(hidden, visible)
    return hidden


def _newly_visible(
    landings: Mapping[int, Landings], lower: Ends, upper: Ends
) -> Iterator[tuple[str, RowsByShard]]:
    """Yield the transactions that became visible in a shard between the two reads."""
    since = {n: shard.since for n, shard in landings.items()}
    for name in {name for names in since.values() for name in names}:
        visible = _visible(since, name, upper)
        if any(landed.rows.start >= lower[n] for n, landed in visible.items()):
            yield name, visible


def _visible(landed: Mapping[int, Mapping[str, Landed]], name: str, upper: Ends) -> RowsByShard:
    """Return the rows of a transaction in each shard that shows it."""
    rows = {n: by_name[name] for n, by_name in landed.items() if name in by_name}
    return {n: of_shard for n, of_shard in rows.items() if of_shard.rows.end <= upper[n]}


def _row_count(visible: RowsByShard) -> int:
    return sum(landed.rows.end - landed.rows.start for landed in visible.values())


def _hide(hidden: dict[int, list[AddressRange]], visible: RowsByShard) -> None:
    for n, landed in visible.items():
        if landed.rows.start < landed.rows.end:
            hidden.setdefault(n, []).append(landed.rows)


def _may_have_forgotten(
    files: StreamFiles, landings: Mapping[int, Landings], pending: Mapping[str, Manifest]
) -> bool:
    """Tell whether a shard may have had a pending transaction that it does not know by name.

    No shard forgets a transaction while its manifest exists.
    """
    unknown = {
        name
        for name, manifest in pending.items()
        for n in manifest.shards
        if name not in landings[n].named and landings[n].has_forgotten
    }
    return bool(unknown) and not unknown <= _manifests(files).keys()
