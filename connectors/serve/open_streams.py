"""The streams that a server has open: one reader each, for all clients.

A reader goes on over the log that it was opened with. So, at most a second after it did so last, it
is compared with the stream's files before it is used: one that was made anew, or whose shard was
reset, gets a reader of its own, and the old one is closed when its last answer ends. Clients say in
each request which logs they know, and how far (protocol/headers.py), and are refused where these
are others, or end before.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from zlib import crc32

from connectors.serve.refusals import limit_reached
from connectors.serve.settings import Bounds
from storage_core import (
    Clock,
    Environment,
    ForeignDataError,
    InvalidRequestError,
    StreamDescription,
    StreamReader,
    UnavailableError,
    describe_stream,
    root_id,
)
from storage_core.answering import lineages_of
from storage_core.protocol import (
    INCARNATION,
    LINEAGES,
    REACHED,
    ROOT,
    decode_reached,
    matches_lineages,
)

_COMPARED_EVERY_S: Final = 1.0
_IDLE_S: Final = 600.0
_OPENING_AT_ONCE: Final = 64
# So many of the texts that clients send are kept, to be compared at once the next time.
_TEXTS_MAX: Final = 16
_Key = tuple[str, str | None]


@dataclass(slots=True, eq=False)
class OpenStream:
    """A reader, and who uses it.

    Attributes:
        reader: The reader.
        incarnation: Of the stream it was opened with.
        directories: Where the shards lay.
        users: How many requests use it.
        compared_s: When it was compared with the stream's files last.
        used_s: When it was used last.
        is_replaced: Whether another one is in its place.
    """

    reader: StreamReader
    incarnation: str
    directories: Mapping[int, Path]
    compared_s: float
    used_s: float
    users: int = 0
    is_replaced: bool = False
    _matched: set[str] = field(default_factory=set)
    _passed: set[str] = field(default_factory=set)

    def check(self, headers: Mapping[str, str], name: str) -> None:
        """Refuse a client that knows another stream, or another log of a shard, or more of one.

        Raises:
            ForeignDataError: It does.
            UnavailableError: It knows a log to reach further than it does here.
        """
        incarnation = headers.get(INCARNATION.lower())
        if incarnation is not None and incarnation != self.incarnation:
            message = "the stream was made anew while it was open at the client; open it again"
            raise ForeignDataError(message, stream=name)
        lineages = headers.get(LINEAGES.lower())
        if lineages is not None and not self._has_logs(lineages):
            message = "a shard was reset while it was open at the client; open it again"
            raise ForeignDataError(message, stream=name)
        reached = headers.get(REACHED.lower())
        if reached is not None:
            self._check_reached(reached, name)

    def _has_logs(self, lineages: str) -> bool:
        if lineages in self._matched:
            return True
        if not matches_lineages(lineages, lineages_of(self.reader)):
            # The client may know of shards that were added since.
            self.reader.refresh()
            if not matches_lineages(lineages, lineages_of(self.reader)):
                return False
        self._matched = _with(self._matched, lineages)
        return True

    def _check_reached(self, text: str, name: str) -> None:
        # What is committed stays so.
        if text in self._passed:
            return
        reached = decode_reached(text)
        committed = self.reader.committed()
        for shard, address in reached.items():
            end = committed.get(shard, -1)
            if end < address:
                message = (
                    f"this server is behind: the log ends at {max(0, end)}, and at {address} or "
                    "later where the client was told before; it sees the files later, or is over "
                    "an older copy"
                )
                raise UnavailableError(message, stream=name, shard=shard)
        self._passed = _with(self._passed, text)


def _with(texts: set[str], text: str) -> set[str]:
    """Return texts with one more, as long as they are few."""
    return {*texts, text} if len(texts) < _TEXTS_MAX else {text}


class OpenStreams:
    """Opens streams, and keeps them open. Any thread."""

    def __init__(self, root: Path, bounds: Bounds, clock: Clock) -> None:
        """Open none yet.

        Raises:
            InvalidRequestError: It is not a root.
        """
        self._root = root
        self._bounds = bounds
        self._clock = clock
        self._lock = threading.Lock()
        # One that opens slowly, as over a disk that hangs, keeps few others waiting.
        self._opening = tuple(threading.Lock() for _ in range(_OPENING_AT_ONCE))
        self._streams: dict[_Key, OpenStream] = {}
        self._root_compared_s = clock.monotonic_s()
        self.root_id = root_id(root)

    def __len__(self) -> int:
        """Return how many streams are open."""
        return len(self._streams)

    def check_root(self, headers: Mapping[str, str]) -> None:
        """Refuse a client that knows another root, and all clients once it is another one.

        Raises:
            ForeignDataError: It is.
            UnavailableError: There is none, as where a disk is not mounted any more.
        """
        expected = headers.get(ROOT.lower())
        if expected is not None and expected != self.root_id:
            message = (
                f"this server is over root {self.root_id}, not over {expected}; "
                "check the address, or open the stream again"
            )
            raise ForeignDataError(message)
        now_s = self._clock.monotonic_s()
        if now_s - self._root_compared_s < _COMPARED_EVERY_S:
            return
        try:
            found_id = root_id(self._root)
        except InvalidRequestError as error:
            # It was there when the server started: what is wrong is no request.
            raise UnavailableError(error.message, path=self._root) from error
        if found_id != self.root_id:
            message = f"root {found_id} was put in the place of {self.root_id}; restart the server"
            raise ForeignDataError(message, path=self._root)
        self._root_compared_s = now_s

    @contextmanager
    def using(
        self, name: str, archived: str | None, headers: Mapping[str, str], *, anew: bool = False
    ) -> Iterator[StreamReader]:
        """Have the reader of a stream while a request is answered.

        Args:
            name: The stream.
            archived: The lineage of an archived log, or None.
            headers: The request's.
            anew: Whether the stream's files are compared in any case.

        Raises:
            ShardlogError: It cannot be opened, or the client knows another one.
        """
        opened = self._checked((name, archived), headers, anew=anew)
        try:
            yield opened.reader
        finally:
            self._release(opened)

    def close(self) -> None:
        """Close all that nobody uses; the rest goes with its last request."""
        with self._lock:
            streams = list(self._streams.values())
            self._streams.clear()
            for opened in streams:
                opened.is_replaced = True
            unused = [opened for opened in streams if not opened.users]
        for opened in unused:
            opened.reader.close()

    def _checked(self, key: _Key, headers: Mapping[str, str], *, anew: bool) -> OpenStream:
        """Take a stream that is the client's; one that may have changed since is compared anew."""
        opened = self._taken(key, anew=anew)
        try:
            opened.check(headers, key[0])
        except ForeignDataError:
            self._release(opened)
            if anew:
                raise
            return self._checked(key, headers, anew=True)
        except BaseException:
            self._release(opened)
            raise
        return opened

    def _taken(self, key: _Key, *, anew: bool) -> OpenStream:
        opened = None if anew else self._fresh(key)
        if opened is not None:
            return opened
        name, _ = key
        with self._opening[crc32(name.encode("utf-8", "surrogatepass")) % _OPENING_AT_ONCE]:
            opened = None if anew else self._fresh(key)
            if opened is not None:
                return opened
            return self._compared(key)

    def _fresh(self, key: _Key) -> OpenStream | None:
        now_s = self._clock.monotonic_s()
        with self._lock:
            opened = self._streams.get(key)
            if opened is None or now_s - opened.compared_s >= _COMPARED_EVERY_S:
                return None
            opened.users += 1
            opened.used_s = now_s
            return opened

    def _compared(self, key: _Key) -> OpenStream:
        """Return the stream as its files are; its reader may be a new one."""
        name, archived = key
        now_s = self._clock.monotonic_s()
        try:
            description = describe_stream(self._root, name)
        except InvalidRequestError:
            self._replace(key, None)
            raise
        with self._lock:
            opened = self._streams.get(key)
            is_same = opened is not None and opened.incarnation == description.incarnation
            if opened is not None and is_same and archived is None:
                is_same = all(
                    description.directories.get(shard) == directory
                    for shard, directory in opened.directories.items()
                )
            if opened is not None and is_same:
                opened.users += 1
                opened.compared_s = opened.used_s = now_s
        if opened is not None and is_same and self._has_grown(opened, description):
            return opened
        self._make_room()
        reader = StreamReader.open(
            self._root,
            name,
            archived=archived,
            read_bytes_max=self._bounds.read_bytes,
            environment=Environment(clock=self._clock),
        )
        opened = OpenStream(
            reader, reader.position().incarnation, description.directories, now_s, now_s, users=1
        )
        self._replace(key, opened)
        return opened

    def _has_grown(self, opened: OpenStream, description: StreamDescription) -> bool:
        """Let a reader take in shards that came since; one of an archived log has its own alone.

        A request may have let it take in one that was reset since: then it is of no use, and is
        given back.
        """
        if len(description.directories) > len(opened.directories):
            try:
                opened.reader.refresh()
            except ForeignDataError:
                self._release(opened)
                return False
            except BaseException:
                self._release(opened)
                raise
            opened.directories = description.directories
        return True

    def _replace(self, key: _Key, opened: OpenStream | None) -> None:
        with self._lock:
            old = self._streams.pop(key, None)
            if opened is not None:
                self._streams[key] = opened
            if old is not None:
                old.is_replaced = True
            is_unused = old is not None and not old.users
        if old is not None and is_unused:
            old.reader.close()

    def _make_room(self) -> None:
        """Close what is idle for long, and what was used longest ago where there are too many."""
        now_s = self._clock.monotonic_s()
        with self._lock:
            unused = sorted(
                (opened.used_s, key) for key, opened in self._streams.items() if not opened.users
            )
            excess = len(self._streams) + 1 - self._bounds.streams
            closing = [
                key
                for index, (used_s, key) in enumerate(unused)
                if index < excess or now_s - used_s > _IDLE_S
            ]
        if excess > len(unused):
            raise UnavailableError(limit_reached(f"{self._bounds.streams} streams are being read"))
        for key in closing:
            self._replace(key, None)

    def _release(self, opened: OpenStream) -> None:
        with self._lock:
            opened.users -= 1
            is_last = opened.is_replaced and not opened.users
        if is_last:
            opened.reader.close()
