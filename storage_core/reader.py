"""A stream as any process reads it, beside a writer or without one."""

import threading
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from storage_core.catalog.archived_shards import read_archived
from storage_core.catalog.opening_by_files import opened_by_files
from storage_core.catalog.position import Position, ShardPosition
from storage_core.catalog.stream_file import StreamFiles, read_stream
from storage_core.engine.environment import Environment
from storage_core.engine.open_files import open_files
from storage_core.engine.stores import refuse_if_not_installed
from storage_core.errors import InvalidRequestError
from storage_core.facade import StreamFacade
from storage_core.open_shards import OpenShards
from storage_core.platform.clock import Clock
from storage_core.platform.durable_file import reading_errors
from storage_core.platform.loading import loading
from storage_core.read.follow.follower import ShardFollower
from storage_core.read.shard_reader import FollowedShard
from storage_core.remote.addresses import names_servers
from storage_core.remote.options import ServerOptions

if TYPE_CHECKING:
    from storage_core.verify.verify import Progress, VerifyReport

_WAIT_PAUSE_FIRST_S: Final = 0.000_2
_WAIT_PAUSE_MAX_S: Final = 0.01


class StreamReader(StreamFacade[FollowedShard]):
    """Reads all shards of a stream. Every read shows what is committed when it begins.

    Any thread may call it. A context manager.

    Example:
        >>> with StreamReader.open(root, "rides") as reader:
        ...     reader.read(ids=7).num_rows
        1
    """

    def __init__(
        self,
        shards: OpenShards[FollowedShard],
        clock: Clock,
        read_bytes_max: int | None = None,
    ) -> None:
        """Take over shards; use `open`."""
        super().__init__(shards, read_bytes_max)
        self._clock = clock
        self._stamp: tuple[int, ...] | None = None
        self._growing = threading.Lock()

    @classmethod
    def open(  # noqa: PLR0913 - what an opener may say
        cls,
        root: str | PathLike[str],
        name: str,
        *,
        archived: str | None = None,
        read_bytes_max: int | None = None,
        server: ServerOptions | None = None,
        environment: Environment | None = None,
    ) -> Self:
        """Open a stream for reading; nothing is locked or changed.

        Args:
            root: The directory that holds the streams; or servers over it, or over several roots
                that have copies of one topic, as `shardlog://a:8085,b:8085`; over TLS
                `shardlogs://`.
            name: The stream.
            archived: The lineage of an archived log, or what it begins with: the reader then has
                that log alone, as it was when `Stream.archive_shards` put another in its place.
            read_bytes_max: The most bytes of rows that one `read` or `latest` may gather here;
                without it, and where that is less, the stream's own option.
            server: How servers are asked; what is not said is in the environment.
            environment: Time, for tests.

        Raises:
            InvalidRequestError: There is no such root or stream, or archived log.
            CorruptionError: A file of it is damaged.
            UnavailableError: The system does not give a file, or no more of them; no server
                answers.
        """
        if names_servers(root):
            # By its name: it stands on this module.
            by_server = import_module("storage_core.owners_reader").open_by_servers
            clock = None if environment is None else environment.clock
            reader: Self = by_server(
                str(root),
                name,
                archived=archived,
                options=server,
                read_bytes_max=read_bytes_max,
                clock=clock,
            )
            return reader
        refuse_if_not_installed()
        clock = (environment or Environment()).clock
        place = Path(root).absolute()

        def files() -> StreamFiles:
            if archived is None:
                return read_stream(place, name)
            return read_archived(place, name, archived)

        return opened_by_files(
            files, lambda read: cls(_followed(read, clock), clock, read_bytes_max)
        )

    def refresh(self) -> dict[int, int]:
        """Follow the writers to about now; return each shard's committed.

        Shards added, and options altered, since the reader was opened are there from then on.

        Example:
            >>> stream.append(1_700_000_001_000, 7, b"end")
            >>> stream.commit() == reader.refresh()
            True
        """
        self._open.refuse_if_closed()
        with reading_errors(self._open.files.directory, "refreshing"):
            self._grow()
        return {n: follower.refresh() for n, follower in self._open.opened().items()}

    def shard(self, shard: int) -> FollowedShard:
        """Return what answers for one shard, as long as the reader is open."""
        return self._open.shard(shard)

    def first_committed_ms(self, shard: int, start: int) -> int | None:
        """Return when the first row of a shard at or above an address was committed.

        Args:
            shard: The shard's number.
            start: The address.

        Returns:
            Milliseconds since 1970; None where nothing is committed at or above it.

        Raises:
            InvalidRequestError: The reader asks a server, which does not tell it.
        """
        follower = self._open.shard(shard)
        if isinstance(follower, ShardFollower):
            return follower.ask(lambda view: view.first_committed_ms(start))
        message = "a server does not tell when rows were committed: open the stream by its root"
        raise InvalidRequestError(message, stream=self._open.meta.name)

    def born(self, shard: int) -> int:
        """Return the first address that a shard can ever have had."""
        self._open.shard(shard)
        return self._open.files.born(shard)

    def start(self, shard: int) -> int:
        """Return the first address that a shard still has or will have, by one snapshot of it."""
        return max(self._open.shard(shard).state().start, self.born(shard))

    def horizon(self, shard: int) -> tuple[int, int]:
        """Return where a shard starts, and its generation, by one snapshot.

        What has expired by then lies below that start, or is gone since that generation or an
        earlier one.
        """
        state = self._open.shard(shard).state()
        return max(state.start, self.born(shard)), state.generation

    def missing(
        self, shard: int, start: int, end: int, *, expired_until: int = 0
    ) -> list[tuple[int, int]]:
        """Return what of a range was there once and cannot be read any more, by one snapshot.

        That is what has expired, below the log's start down to the shard's birth and behind a
        row that has not, and what is lost.

        Args:
            shard: The shard's number.
            start: The range's first address.
            end: Its exclusive end.
            expired_until: A generation of the shard; what had expired behind a row by then is left
                out.

        Returns:
            Parts of the range as (start, end), in order.
        """
        follower, born = self._open.shard(shard), self.born(shard)
        state = follower.state()
        gone = [(born, state.start), *((lost.start, lost.end) for lost in state.lost)]
        if start < state.expired_end:
            gone += follower.expired(start, end, expired_until)
        gaps = [(max(start, first), min(end, last)) for first, last in gone]
        return sorted(part for part in gaps if part[0] < part[1])

    def wait(self, shard: int, address: int, timeout: float) -> bool:
        """Sleep until a shard's committed is above an address.

        Args:
            shard: The shard's number.
            address: The address awaited.
            timeout: The longest to wait, in seconds.

        Returns:
            Whether the address is committed.

        Example: follow a shard from where it stands.
            >>> seen = reader.committed()[3]
            >>> stream.append(1_700_000_001_000, 7, b"end")
            >>> end = stream.commit()[3]
            >>> if reader.wait(3, seen, timeout=10):
            ...     [batch.column("payload").to_pylist() for batch in reader.tail(3, seen, end)]
            [[b'end']]
        """
        follower = self._open.shard(shard)
        deadline = self._deadline_of_wait(address, timeout)
        pause = _WAIT_PAUSE_FIRST_S
        while follower.committed() <= address:
            left = deadline - self._clock.monotonic_s()
            if left <= 0:
                return False
            self._clock.sleep(min(pause, left))
            pause = min(2 * pause, _WAIT_PAUSE_MAX_S)
        return True

    def verify(
        self, progress: "Progress | None" = None, *, reads_lake: bool = False
    ) -> "VerifyReport":
        """Read all committed blocks and compare what follows from them, as `Stream.verify` does.

        Nothing is locked or changed, so that a place can be verified that may only be read; the
        report's `unchecked` says what that leaves open.

        Args:
            progress: Called every so many blocks with the shard, the address that was reached,
                and the exclusive end.
            reads_lake: Whether to read the parts that only the lake has; else it is asked whether
                it has them.

        Raises:
            UnavailableError: The disk does not read a file now; what was found before is not told.
            CorruptionError: A shard cannot be read at all.
        """
        # Only who verifies needs it, and it loads what writes.
        with loading(self._open.meta.name):
            from storage_core.verify.followed import verify_followed  # noqa: PLC0415
            from storage_core.verify.schema_checks import fingerprint_of  # noqa: PLC0415
            from storage_core.verify.verify import VerifyLimits, VerifyReport  # noqa: PLC0415

        report = VerifyReport()
        files = self._open.files
        for number in self._open.opened():
            follow = partial(ShardFollower, files, number, self._clock)
            directory = files.shard_directory(number)
            limits = VerifyLimits(reads_lake=reads_lake)
            report = report.plus(
                verify_followed(follow, directory, progress, fingerprint_of, limits)
            )
        return report

    def position(self) -> Position:
        """Return where the stream stands."""
        # Shards may be added meanwhile; those that have an end here are listed by then.
        ends = self.committed()
        return Position(
            self._open.meta.incarnation,
            {n: ShardPosition(self.lineage(n), end) for n, end in ends.items()},
        )

    def archived_lineages(self) -> frozenset[str]:
        """Return the lineages of logs that were replaced, whether their data is there or not."""
        return frozenset(log.lineage for log in self._open.files.settings.archived)

    def close(self) -> None:
        """Close everything; closing twice is fine."""
        self._open.home.refuse_elsewhere()
        with self._growing:
            self._open.is_closed = True
        for follower in self._open.by_number.values():
            follower.close()

    def __exit__(self, _: object, error: BaseException | None, trace: object) -> None:
        """Close; a fork that ends by an exception leaves the reader to its parent."""
        if error is None or not self._open.home.is_elsewhere:
            self.close()

    def _deadline_of_wait(self, address: object, timeout: object) -> float:
        """Return when a wait is over, by the clock.

        Raises:
            InvalidRequestError: Something else than an address or a time is waited for.
        """
        if type(address) is not int or not isinstance(timeout, int | float):
            message = f"wait for an address and a number of seconds, not {address!r}, {timeout!r}"
            raise InvalidRequestError(message)
        return self._clock.monotonic_s() + timeout

    def _grow(self) -> None:
        """Take in what options.json says, if it was replaced since it was read."""
        stamp = self._open.files.settings_stamp()
        if stamp is not None and stamp == self._stamp:
            return
        with self._growing:
            if self._open.is_closed:
                return
            files = self._open.files = self._open.files.reread()
            for number in sorted(set(files.settings.lineages) - set(self._open.by_number)):
                follower = ShardFollower(files, number, self._clock)
                # Another dictionary: reads under way go on over the one they hold.
                shards = {**self._open.by_number, number: follower}
                self._open.by_number = dict(sorted(shards.items()))
            self._stamp = stamp


def _followed(files: StreamFiles, clock: Clock) -> OpenShards[FollowedShard]:
    """Return all shards, each with what follows it; after an error none is open."""
    shards = len(files.settings.lineages)
    open_files().require_for_reader(shards, f"{shards} markers to read", files.meta.name)
    followers: dict[int, ShardFollower] = {}
    with ExitStack() as undo, reading_errors(files.directory, "opening for reading"):
        for number in sorted(files.settings.lineages):
            followers[number] = ShardFollower(files, number, clock)
            undo.callback(followers[number].close)
        undo.pop_all()
    return OpenShards(files, followers, "reader")
