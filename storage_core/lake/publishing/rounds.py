"""Publishing in rounds: each is one commit, of a step of every shard that has something to publish.

A shard that somebody else has changed meanwhile is left out of the round's commit, and compared
anew in the next one. One that cannot be published, as with a damaged part or where another log
publishes it, is out for good, and the others go on; so they do where the store does not give one
file, and gives others. What fails for all of them, as a store that does not answer, ends the call.
What was committed before either is reported all the same: the next call finds it in the table, and
reports it no more.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from storage_core.errors import CorruptionError, ShardlogError, UnavailableError
from storage_core.format.keys import INT64_MAX
from storage_core.format.part_entry import ShardParts
from storage_core.lake.image_names import image_of_path
from storage_core.lake.maintenance.unread import UnreadFileError
from storage_core.lake.publishing.mirror import MirrorStep, ShardListing, StepLimits, next_step
from storage_core.lake.publishing.publication import Publication
from storage_core.lake.publishing.repair import lost_parts
from storage_core.lake.publishing.report import ShardPublished
from storage_core.lake.shard_change import ShardChange, TableFile
from storage_core.lake.table import LakeConflictError
from storage_core.lake.table_columns import TableColumns
from storage_core.sql.part_groups import PartGoneError

# How often one step is tried. Each time somebody else has committed or merged, so that there is
# progress whenever one fails, and nobody needs to wait.
TRIES_MAX: Final = 20
# What one commit adds, unless a shard's step alone is more: a crash uploads no more than that anew.
ROUND_PARTS_MAX: Final = 64
ROUND_ROWS_MAX: Final = 4_000_000
# What a call that is bounded reads of the store to let files of a shard go.
PROVEN_BYTES_MAX: Final = 2**30
_LEAST: Final = StepLimits(parts=1, rows=1)


@dataclass(slots=True)
class _Shard:
    """How far a shard has come.

    Attributes:
        number: Its number.
        is_bounded: Whether the call leaves a rest to another one.
        limits: What a step of it does at most.
        done: What was done; None before the first step.
        tries: How often its step was tried in vain.
        error: Why it is out.
        left_alone: What could not be done behind its last step.
        is_repaired: Whether what the store had lost was looked for.
    """

    number: int
    is_bounded: bool
    limits: StepLimits = StepLimits()  # noqa: RUF009 - it is frozen
    done: ShardPublished | None = None
    tries: int = 0
    error: ShardlogError | None = None
    left_alone: list[ShardlogError] = field(default_factory=list)
    is_repaired: bool = False

    @property
    def is_over(self) -> bool:
        """Tell whether nothing is left to do for this call."""
        return self.error is not None or (self.done is not None and self.done.is_whole)

    @property
    def commits(self) -> int:
        """In how many commits something of it was."""
        return 0 if self.done is None else self.done.commits

    def failed(self, error: ShardlogError) -> None:
        """Take note of an error that is the shard's own."""
        if isinstance(error, CorruptionError | UnreadFileError) and self.limits != _LEAST:
            # What lies before a part that is damaged, or not given, is published without it.
            self.limits = _LEAST
        else:
            self.error = error

    def lost(self, error: CorruptionError) -> None:
        """Take note that the store has lost a file of it behind the commit: no try brings it."""
        self.error = error

    def failed_once(self, error: LakeConflictError | PartGoneError) -> None:
        """Take note of a try that came to nothing; too many of them are why it is out."""
        self.tries += 1
        if self.tries == TRIES_MAX:
            self.error = error

    def add(self, step: ShardPublished) -> None:
        """Take note of a step that was done."""
        self.tries = 0
        self.done = step if self.done is None else self.done.then(step)


@dataclass(frozen=True, slots=True)
class _Step:
    """What a round does in a shard."""

    shard: _Shard
    parts: ShardParts
    listing: ShardListing
    mirrored: MirrorStep
    is_repair: bool = False

    @property
    def rows(self) -> int:
        return sum(added.entry.rows for added in self.mirrored.adds)


@dataclass(frozen=True, slots=True)
class Rounds:
    """What came of shards.

    Attributes:
        published: What was published, of each shard as far as it got.
        errors: Why some did not get through, or what first could not be done for some.
        fault: What ended the call for all that were left.
        unread: All files that the store did not give, though it gives others.
    """

    published: Mapping[int, ShardPublished]
    errors: Mapping[int, ShardlogError]
    fault: ShardlogError | None = None
    unread: tuple[UnreadFileError, ...] = ()

    def raise_first(self) -> None:
        """Raise what kept all of them, or else one, from being published: damage before others."""
        for error in (self.fault, *sorted(self.errors.values(), key=_is_for_now)):
            if error is not None:
                raise error


def publish_in_rounds(
    publication: Publication, numbers: Collection[int], commits_max: int | None = None
) -> Rounds:
    """Publish some shards in steps until nothing is left to do, or the limit is reached.

    Args:
        publication: The stream and its table.
        numbers: The shards, those that go first before others.
        commits_max: After how many commits, or the parts of a whole round, or a GiB of a shard's
            files that go, to leave the rest.
    """
    shards = [_Shard(number, commits_max is not None) for number in numbers]
    fault: ShardlogError | None = None
    try:
        _do_rounds(publication, shards, commits_max)
    except ShardlogError as error:
        fault = error
    bytes_max = INT64_MAX if commits_max is None else PROVEN_BYTES_MAX
    if fault is None:
        publication.list_heads([shard.number for shard in shards if shard.commits])
    for shard in shards:
        if shard.error is None and fault is None:
            try:
                _end(publication, shard, bytes_max)
            except ShardlogError as error:
                fault = error
    # Of a shard that is out, as far as it got: no later call tells of rows that are there.
    done = {shard.number: shard.done for shard in shards if shard.done is not None}
    publication.note(done)
    return Rounds(done, _errors(shards), fault, tuple(_unread(shards)))


def _is_for_now(error: ShardlogError) -> bool:
    return isinstance(error, UnavailableError)


def _errors(shards: Collection[_Shard]) -> dict[int, ShardlogError]:
    """Return why shards are out, and then, damage first, what was left alone in others."""
    errors = {shard.number: shard.error for shard in shards if shard.error is not None}
    for shard in shards:
        for error in sorted(shard.left_alone, key=_is_for_now):
            errors.setdefault(shard.number, error)
    return errors


def _unread(shards: Collection[_Shard]) -> Iterator[UnreadFileError]:
    for shard in shards:
        for error in (shard.error, *shard.left_alone):
            if isinstance(error, UnreadFileError):
                yield error


def _do_rounds(
    publication: Publication, shards: Collection[_Shard], commits_max: int | None
) -> None:
    left, share = list(shards), 0.0
    while left:
        share += _do_round(publication, left)
        if commits_max is not None and (share >= 1 or publication.commits >= commits_max):
            return
        # Of backlogs that each fill a round none waits for the end of another.
        left = sorted((shard for shard in left if not shard.is_over), key=lambda one: one.commits)


def _end(publication: Publication, shard: _Shard, bytes_max: int) -> None:
    """Do what comes behind a shard's last step; what fails in it alone keeps no other back.

    Raises:
        ShardlogError: It fails for all of them.
    """
    done = shard.done
    if done is None or not done.is_whole:
        return
    leave_alone = shard.left_alone.append
    try:
        if done.commits or publication.consent.repair:
            runs = publication.tend_heads(done.shard, leave_alone)  # 7
            shard.done = done = replace(done, runs_written=runs)
        shard.done = publication.delete_local(done, bytes_max, leave_alone)  # 8
    except ShardlogError as error:
        if not publication.is_of_shard(error):
            raise
        shard.left_alone.append(error)


def _do_round(publication: Publication, shards: Collection[_Shard]) -> float:
    """Do one round, as `publish_shard` says; return which share of what one may have it had."""
    steps = list(_within_a_round(_steps(publication, shards)))  # 1, 2, 3
    with _conflicts_noted(steps):
        columns = publication.prepare() if steps else None
        # Where the table was made, or got columns, all is compared anew with what is there then.
        if columns is not None:
            _carry_out(publication, steps, columns)
            return _share(steps)
    return 0.0


def _carry_out(publication: Publication, steps: Collection[_Step], columns: TableColumns) -> None:
    """Upload what steps add, and commit all of it at once."""
    changes: list[tuple[_Step, ShardChange]] = []
    uploaded: dict[int, list[TableFile]] = {}
    for step in steps:
        with _failures_noted(publication, step.shard):
            begin = step.listing.begin
            files = publication.upload(step.shard.number, step.parts, step.mirrored, columns, begin)
            uploaded[step.shard.number] = files
            change = publication.change(step.shard.number, files, step.mirrored)  # 4
            changes.append((step, change))
    # Where files were lost that the table names still, nothing of it changes.
    to_commit = [of for step, of in changes if of.adds or of.removes or not step.is_repair]
    committed = publication.commit(to_commit)  # 5, 6
    for step, change in changes:
        if change.shard in committed.conflicts:
            step.shard.failed_once(publication.conflict(change.shard))
            continue
        step.shard.add(_reported(step, change, uploaded[change.shard]))
        step.shard.is_repaired |= step.is_repair
        if change.shard in committed.lost:
            step.shard.lost(committed.lost[change.shard])
    if committed.fault is not None:
        raise committed.fault


def _steps(publication: Publication, shards: Collection[_Shard]) -> Iterator[_Step]:
    """Yield a step of each shard that has something to publish."""
    publication.load()  # 1
    for shard in shards:
        step = None
        with _failures_noted(publication, shard):
            step = _compared(publication, shard)
        if step is not None:
            yield step


def _compared(publication: Publication, shard: _Shard) -> _Step | None:
    """Return what is to be done in a shard; if it is nothing, take note of that."""
    parts = publication.parts(shard.number)  # 2
    listing = publication.listing(shard.number, parts)
    mirrored = next_step(listing, shard.limits)  # 3
    if mirrored is None and publication.claims(shard.number, listing):
        mirrored = MirrorStep((), (), listing.begin)
    if mirrored is not None:
        return _Step(shard, parts, listing, mirrored)
    if publication.consent.repair and not shard.is_repaired:
        mirrored = publication.repair_step(shard.number, listing)
        if mirrored is not None:
            return _Step(shard, parts, listing, mirrored, is_repair=True)
    if not shard.is_bounded:
        publication.refuse_lost_parts(shard.number, listing, parts)
    lost = len(lost_parts(listing, parts))
    begin, sealed = listing.begin, listing.sealed
    shard.add(ShardPublished(shard.number, begin, begin, sealed, parts_lost=lost))
    return None


def _within_a_round(steps: Iterator[_Step]) -> Iterator[_Step]:
    """Yield the first steps, as many as one commit may have."""
    chosen: list[_Step] = []
    for step in steps:
        chosen.append(step)
        yield step
        if _share(chosen) >= 1:
            return


def _share(steps: Collection[_Step]) -> float:
    """Return which share steps are of what one commit may have."""
    parts = sum(len(step.mirrored.adds) for step in steps)
    return max(parts / ROUND_PARTS_MAX, sum(step.rows for step in steps) / ROUND_ROWS_MAX)


@contextmanager
def _conflicts_noted(steps: Collection[_Step]) -> Iterator[None]:
    """Take it for a try of each shard if others have changed the table."""
    try:
        yield
    except LakeConflictError as error:
        for step in steps:
            step.shard.failed_once(error)


@contextmanager
def _failures_noted(publication: Publication, shard: _Shard) -> Iterator[None]:
    """Keep what fails in one shard from the others."""
    try:
        yield
    except (LakeConflictError, PartGoneError) as error:
        shard.failed_once(error)
    except ShardlogError as error:
        if not publication.is_of_shard(error):
            raise
        shard.failed(error)


def _reported(step: _Step, change: ShardChange, uploaded: Collection[TableFile]) -> ShardPublished:
    missing = step.listing.missing
    repaired = tuple(
        file.path
        for file in uploaded
        if step.is_repair or image_of_path(file.path).entry_digest in missing
    )
    return ShardPublished(
        change.shard,
        step.listing.begin,
        change.end,
        step.listing.sealed,
        rows=sum(file.rows for file in change.adds if file.is_new),
        files_added=len(change.adds),
        files_removed=len(change.removes),
        bytes=sum(file.size for file in change.adds),
        commits=1,
        is_whole=False,
        repaired=repaired,
    )
