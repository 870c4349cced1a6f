"""Publishing: the files of a stream's Delta table become those of its part lists.

It reads the stream as any process may, and changes the table alone: any number of processes may
publish one stream at once. What the table has of a shard is told by its files' names, and up to
where it goes by the shard's `txn` action, which comes in the same commit; nothing else is
remembered anywhere.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory

from storage_core.engine.private_directory import PrivateDirectory
from storage_core.errors import InvalidRequestError, ShardlogError
from storage_core.lake.options_file import lake_options
from storage_core.lake.publishing.consent import Consent
from storage_core.lake.publishing.notes import LakeNotes
from storage_core.lake.publishing.open_tables import OpenTables
from storage_core.lake.publishing.publication import Publication
from storage_core.lake.publishing.report import PublishReport, ShardPublished
from storage_core.lake.publishing.rounds import Rounds, publish_in_rounds
from storage_core.lake.publishing.unchanged import ShardMarks, are_newest, decode_whole, marks_of
from storage_core.lake.readable_shards import readable_shards
from storage_core.lake.target import LakeTarget, lake_target
from storage_core.parts.progress import OnRows
from storage_core.platform.clock import SystemClock
from storage_core.platform.durable_file import taking_errors
from storage_core.reader import StreamReader


def publish_shard(  # noqa: PLR0913 - how a call is bounded and followed
    reader: StreamReader,
    shard: int,
    target: LakeTarget,
    *,
    scratch: Path | None = None,
    on_rows: OnRows | None = None,
    commits_max: int | None = None,
    accept_hole: bool = False,
    take_over: bool = False,
    tables: OpenTables | None = None,
) -> ShardPublished:
    """Publish what is sealed of a shard, in steps of some parts, each of which is one commit.

    1. Load: the table as it is, its files and the published address of the shard.
    2. Read: the shard's part list, in one snapshot. It is never older than the list that the
       loaded table was made of.
    3. Compare: parts that the table lacks, above the published address or in the place of others,
       and files of parts that are listed no more; in order and without a hole.
    4. Upload: what is added, each file compared with its digest, under names that tell what is in
       them, and the heads of new rows (heads/). Before that the table is made, or gets the columns
       that it lacks; then all begins at 1.
    5. Commit: the files, and the published address, at once. If somebody else has changed the
       shard since 1, all begins there; so it does if a part was deleted meanwhile.
    6. Read back: load the table again; it has the files and the address, and the store has each
       file. The commit counts whatever the store has lost; that is told of the shard concerned.
    7. Tend, once nothing is left to publish: heads runs that are missing are written, some are
       merged.
    8. Let go: files of parts that the stream's own lake has go from this machine `keep_local` after
       they were made (local_files.py), and archived logs all of whose rows and dead letters
       the log in force has (covered_logs.py).

    A crash before 5 leaves files that no version of the table names, which vacuum deletes; one
    behind it leaves nothing. Any process may publish, and several at once.

    Args:
        reader: The stream, opened by the path of its root.
        shard: The shard's number.
        target: Where the table is.
        scratch: A directory for files that are not uploaded as they lie; if None a temporary one.
        on_rows: Called again and again with how many rows were uploaded so far.
        commits_max: After how many commits, or a GiB of files that go, to leave the rest for
            another call.
        accept_hole: Go on where the log begins above the published address, as one does whose
            source had lost what lies between; the table never has it then.
        take_over: Publish though another log publishes the shard. That one is refused from then
            on; rows that its root has in the table alone are lost to it.
        tables: Tables that stay loaded from call to call; if None this call loads its own.

    Raises:
        LakeOwnerError: Another log publishes the shard.
        InvalidRequestError: The reader asks a server; or the table cannot be used as it is.
        ForeignDataError: What lies there is another stream's table, or none of shardlog.
        CorruptionError: A part is damaged, and what lies before it is published; or the store has
            lost a file that was committed.
        LostRangeError: The log begins above the published address.
        UnavailableError: The store does not answer, or others commit all the time.
    """
    consent = Consent(accept_hole, take_over)
    with scratch_directory(scratch) as directory:
        publication = Publication(reader, target, directory, on_rows, consent, tables)
        done = publish_in_rounds(publication, [shard], commits_max)
        done.raise_first()
        publication.end()
        return done.published[shard]


def publish_shards(  # noqa: PLR0913 - how a call is bounded and followed
    reader: StreamReader,
    shards: Collection[int],
    target: LakeTarget,
    *,
    commits_max: int,
    on_rows: OnRows | None = None,
    tables: OpenTables | None = None,
) -> Rounds:
    """Publish a bounded part of what is sealed of some shards, in commits that each are of all.

    Nothing is raised: what fails in one shard keeps no other from being published, and what fails
    for all is told beside what was published before.

    Args:
        reader: The stream, opened by the path of its root.
        shards: The shards, those that go first before others.
        target: Where the table is.
        commits_max: After how many commits, or as many parts as one may have, to leave the rest.
        on_rows: As `publish_shard` takes it.
        tables: As `publish_shard` takes it.

    Returns:
        What came of them: how far each shard got, and beside that what kept some from getting
        further. A shard that the call did not come to is in nothing of it.
    """
    try:
        with scratch_directory(None) as directory:
            publication = Publication(reader, target, directory, on_rows, tables=tables)
            done = publish_in_rounds(publication, shards, commits_max)
            if done.fault is None:
                publication.end()
            return done
    except ShardlogError as error:
        return Rounds({}, {}, error)


def publish_stream(  # noqa: PLR0913 - how a call is bounded and followed
    root: str | PathLike[str],
    name: str,
    target: LakeTarget | None = None,
    *,
    on_rows: OnRows | None = None,
    accept_hole: bool = False,
    take_over: bool = False,
    create_table: bool = False,
) -> PublishReport:
    """Publish what is sealed of all shards of a stream, in commits that each are of all of them.

    A shard with a damaged part or a damaged log, or that another log publishes, does not keep the
    others from being published.

    Args:
        root: The directory that holds the streams.
        name: The stream.
        target: Where its table is; if None where the stream's option `lake` says.
        on_rows: Called again and again with how many rows were uploaded so far.
        accept_hole: As `publish_shard` takes it.
        take_over: As `publish_shard` takes it.
        create_table: Make the table anew where this root has published one that is gone. Refused
            all the same where that had the only file of some parts.

    Raises:
        CorruptionError: A part or a log is damaged, or the table lacks a part; all that can be is
            published.
        LakeOwnerError: Another log publishes a shard; as above.
        InvalidRequestError: There is no such stream, or it has no lake.
        ShardlogError: As `publish_shard` does.
    """
    consent = Consent(accept_hole, take_over, create=create_table)
    with readable_shards(root, name) as opened:
        reader = opened.reader
        place = target or target_of(reader)
        shards = list(reader.rows.shards.opened())
        marks = marks_of(reader, shards)
        unchanged = None if consent != Consent() else _unchanged(reader, place, marks)
        if unchanged is not None:
            return PublishReport(place.uri, unchanged, 0)
        with scratch_directory(None) as directory:
            publication = Publication(reader, place, directory, on_rows, consent)
            done = publish_in_rounds(publication, shards)
            done.raise_first()
            if opened.faults:
                raise next(iter(opened.faults.values()))
            publication.note_whole(marks, done.published)
            return PublishReport(place.uri, done.published, publication.commits)


def _unchanged(
    reader: StreamReader, target: LakeTarget, marks: Mapping[int, ShardMarks]
) -> dict[int, ShardPublished] | None:
    """Return what a publish has to say where nothing has changed since the last; else None.

    Files of parts that may go from this machine do so by their age.
    """
    files = reader.rows.shards.files
    notes = LakeNotes(files.directory.parent)
    noted = decode_whole(notes.whole(files.meta.name), target.uri, marks)
    if noted is None or reader.options.keep_local is not None:
        return None
    commits, ends = noted
    if not are_newest(commits, target):
        return None
    return {
        shard: ShardPublished(shard, end, end, max(marks[shard].sealed, reader.born(shard)))
        for shard, end in ends.items()
    }


def target_of(reader: StreamReader) -> LakeTarget:
    """Return where a stream's table is by its own option.

    Raises:
        InvalidRequestError: It has none.
    """
    uri = reader.options.lake
    if uri is None:
        message = "the stream has no lake: set its option `lake`, or name a place"
        raise InvalidRequestError(message, stream=reader.rows.shards.meta.name)
    return lake_target(uri, lake_options())


@contextmanager
def scratch_directory(directory: Path | None = None) -> Iterator[Path]:
    """Give an empty directory, below the one named or below that of temporary files."""
    if directory is None:
        private = PrivateDirectory(SystemClock())
        try:
            yield private.path
        finally:
            private.remove()
        return
    with taking_errors(directory, "making a temporary directory"):
        made = TemporaryDirectory(prefix="shardlog-lake-", dir=directory)
    with made as path:
        yield Path(path)
