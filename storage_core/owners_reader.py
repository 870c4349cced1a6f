"""A stream whose shards lie in several roots, each at servers of its own, read as one.

`StreamReader.open("shardlog://a:8085,b:8085", name)` makes one where the servers say that they are
over different roots with copies of one topic. What it is to a reader over one root: the same names,
results and errors, by shards that each know who has which addresses (remote/owned_shard.py). Its
incarnation and lineages follow from the topic's id and are the same whoever owns a partition, so an
offset of Spark's holds after a partition moved.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from storage_core.catalog.stream_file import StreamFiles
from storage_core.errors import InvalidRequestError, UnavailableError
from storage_core.format.counters import StreamStats
from storage_core.open_shards import OpenShards
from storage_core.platform.clock import Clock, SystemClock
from storage_core.protocol import StreamFacts
from storage_core.read.shard_reader import FollowedShard
from storage_core.reader import StreamReader
from storage_core.remote.addresses import Servers, parse_servers
from storage_core.remote.backoff import Backoff
from storage_core.remote.client import ServerClient, none_answered
from storage_core.remote.finding import ServedStream, Silent, find, refuse_other_topics
from storage_core.remote.options import ServerOptions
from storage_core.remote.owned_shard import OwnedShard
from storage_core.remote.owners import Owners
from storage_core.remote.stream_client import StreamClient
from storage_core.remote_reader import RemoteReader, files_of
from storage_core.roots import root_id

if TYPE_CHECKING:
    from storage_core.verify.verify import Progress, VerifyReport

_ID_BYTES: Final = 16
# Whoever waits for an owner looks so often whether another has taken over.
_SLICE_S: Final = 1.0
_PAUSE_S: Final = 0.05


def open_by_servers(  # noqa: PLR0913 - what an opener may say
    servers: str,
    name: str,
    *,
    archived: str | None = None,
    options: ServerOptions | None = None,
    read_bytes_max: int | None = None,
    clock: Clock | None = None,
) -> StreamReader:
    """Open a stream of servers over one root, or over several that have its shards between them.

    Args:
        servers: Their addresses: `shardlog://a:8085,b:8085`, or `shardlogs://…` over TLS.
        name: The stream.
        archived: The lineage of an archived log, or what it begins with; of one root alone.
        options: How servers are asked; what is not said is in the environment.
        read_bytes_max: The most bytes of rows that one `read` or `latest` may gather here.
        clock: Time, for tests.

    Raises:
        InvalidRequestError: There is no such stream; an address, the token or a certificate is
            wrong.
        UnavailableError: No server answers, or one that does not may have some of the stream.
        ForeignDataError: The servers are over roots whose streams are no copies of one topic.
    """
    named = parse_servers(servers)
    options, clock = options or ServerOptions(), clock or SystemClock()
    if len(named.groups) == 1 or archived is not None:
        return _of_one_root(named, name, archived, options, read_bytes_max, clock)
    backoff = Backoff(clock, options.retry_for.total_seconds())
    while True:
        served, silent = find(named.groups, name, options, clock)
        _refuse_other_topics(served)
        error = None if _is_of_one_root(served) else _possibly_short(name, served, silent)
        if error is None:
            break
        backoff.pause(error)
    has_origin = any(each.facts is not None and each.facts.origin is not None for each in served)
    if not has_origin or len({each.root for each in served}) == 1:
        return _of_one_root(named, name, None, options, read_bytes_max, clock)
    owners = Owners(name, served, options, clock)
    try:
        return OwnersReader(owners, clock, read_bytes_max)
    except BaseException:
        owners.close()
        raise


def _refuse_other_topics(served: Sequence[ServedStream]) -> None:
    """Refuse roots of which several have a stream, and not copies of one topic."""
    having = [(each, each.facts) for each in served if each.facts is not None]
    for stream, facts in having[1:]:
        first, first_facts = having[0]
        if stream.root != first.root:
            refuse_other_topics(first_facts, first.servers.text, facts, stream.servers.text)


def _is_of_one_root(served: Sequence[ServedStream]) -> bool:
    """Tell whether the stream has no origin: such a stream lies in one root alone."""
    return any(each.facts is not None and each.facts.origin is None for each in served)


class OwnersReader(StreamReader):
    """Reads a stream whose shards lie in several roots. Any thread may call it."""

    def __init__(self, owners: Owners, clock: Clock, read_bytes_max: int | None = None) -> None:
        """Take over roots; use `open_by_servers`."""
        self.owners = owners
        shards = _OwnedShards(owners, files_of(_facts_of(owners)))
        super().__init__(shards, clock, read_bytes_max)
        owners.configure(read_bytes_max or 0, shards.refuse_if_closed)

    def __repr__(self) -> str:
        """Return where the stream is read, without any token."""
        return f"<OwnersReader of {self._open.meta.name!r} at {self.owners.text}>"

    @property
    def root_id(self) -> str:
        """What stands for all roots that have copies of the topic, whichever these are."""
        return f"owners of {self._open.meta.incarnation}"

    def archived_lineages(self) -> frozenset[str]:
        """Return the lineages of logs that were replaced in any root."""
        return frozenset().union(*(root.facts.archived for root in self.owners.roots))

    def refresh(self) -> dict[int, int]:
        """Follow the writers to about now; return each shard's committed."""
        self._open.refuse_if_closed()
        with self._growing:
            self.owners.learn()
            self._open.files = files_of(_facts_of(self.owners))
        return self.committed()

    def shard(self, shard: int) -> OwnedShard:
        """Return what answers for one shard, as long as the reader is open."""
        return self._owned(shard)

    def born(self, shard: int) -> int:
        """Return the first address that a shard can ever have had in any root."""
        return self._owned(shard).born()

    def start(self, shard: int) -> int:
        """Return the first address that a shard still has or will have in any root."""
        return self._owned(shard).start()

    def horizon(self, shard: int) -> tuple[int, int]:
        """Return where a shard starts, and its generation, by one snapshot."""
        return self._owned(shard).horizon()

    def missing(
        self, shard: int, start: int, end: int, *, expired_until: int = 0
    ) -> list[tuple[int, int]]:
        """Return what of a range was there once and cannot be read any more."""
        return self._owned(shard).expired(start, end, expired_until)

    def wait(self, shard: int, address: int, timeout: float) -> bool:
        """Sleep until a shard's committed is above an address, whoever owns it meanwhile."""
        deadline = self._deadline_of_wait(address, timeout)
        while True:
            left_s = max(0.0, deadline - self._clock.monotonic_s())
            is_there = self._owned(shard).wait(address, left_s, _SLICE_S)
            if is_there or left_s <= 0:
                return bool(is_there)
            if is_there is None:
                self._clock.sleep(min(_PAUSE_S, left_s))

    def stats(self, shard: int | None = None) -> StreamStats:
        """Return what one shard has counted, or all of them, if each lies in one root.

        Raises:
            InvalidRequestError: Several roots have rows of one; each has counted its own.
        """
        for number in self._open.opened() if shard is None else (shard,):
            if not self._owned(number).lies_in_one_root():
                message = (
                    "several roots have rows of the shard, and each has counted what it stored: "
                    "ask each server by itself"
                )
                raise InvalidRequestError(message, stream=self._open.meta.name, shard=number)
        return super().stats(shard)

    def sizes(self) -> dict[int, int]:
        """Return the bytes that each shard takes on the disks of all roots."""
        sizes: dict[int, int] = {}
        for root in self.owners.roots:
            for number, size in root.asks.result("sizes").items():
                sizes[number] = sizes.get(number, 0) + size
        return sizes

    def verify(
        self,
        progress: "Progress | None" = None,  # noqa: ARG002 - as there
        *,
        reads_lake: bool = False,  # noqa: ARG002 - as there
    ) -> "VerifyReport":
        """Refuse: what is on disk is verified there."""
        message = "shards are verified on the machine that has them: shardlog verify ROOT"
        raise InvalidRequestError(message, stream=self._open.meta.name)

    def close(self) -> None:
        """Close everything; closing twice is fine."""
        super().close()
        self.owners.close()

    def _owned(self, number: int) -> OwnedShard:
        shard = self._open.shard(number)
        assert isinstance(shard, OwnedShard)
        return shard


class _OwnedShards(OpenShards[FollowedShard]):
    """The shards of several roots: each time they are asked for, as they stand then."""

    def __init__(self, owners: Owners, files: StreamFiles) -> None:
        super().__init__(files, {}, "reader")
        self._owners = owners

    def opened(self) -> Mapping[int, OwnedShard]:
        """Return the shards by number, as every root says now."""
        self.refuse_if_closed()
        views = self._owners.retried_snapshot()
        self.by_number = owned = {
            number: OwnedShard(self._owners, view, self.meta)
            for number, view in views.items()
            if number in self.files.settings.lineages
        }
        return owned


def root_of(reader: StreamReader, place: str) -> str:
    """Return the id of the root that a reader has opened, or what stands for several.

    Args:
        reader: The reader.
        place: The root's path, or addresses of servers.

    Raises:
        ShardlogError: The root's file cannot be read.
    """
    if isinstance(reader, RemoteReader | OwnersReader):
        return reader.root_id
    return root_id(place)


def _of_one_root(  # noqa: PLR0913 - what an opener may say
    servers: Servers,
    name: str,
    archived: str | None,
    options: ServerOptions,
    read_bytes_max: int | None,
    clock: Clock,
) -> RemoteReader:
    client = ServerClient(servers, options, clock)
    try:
        asks, facts = StreamClient.opened(client, name, archived)
    except BaseException:
        client.close()
        raise
    return RemoteReader(asks, facts, clock, read_bytes_max)


def _possibly_short(
    name: str, served: Sequence[ServedStream], silent: Sequence[Silent]
) -> UnavailableError | None:
    """Return what is wrong where servers that do not answer may have some of the stream.

    Whatever those that answer have: of how many shards there are, none of them knows.
    """
    if not silent:
        return None
    errors = [error for _, error in silent]
    if not served:
        return none_answered(errors)
    reasons = "; ".join(error.message for error in errors)
    message = (
        f"{reasons}: it may have some of the stream (servers over one root are written with a plus "
        "between them, as a:8085+b:8085, of which one need not answer)"
    )
    return UnavailableError(message, stream=name)


def _facts_of(owners: Owners) -> StreamFacts:
    """Return what the stream is, by ids that are the same whoever owns a partition."""
    first = owners.roots[0].facts
    origin = first.origin
    assert origin is not None
    identity = f"{origin.topic}\n{origin.topic_id}"
    lineages: dict[int, str] = {}
    births: dict[int, int] = {}
    for root in owners.roots:
        for number in root.facts.lineages:
            lineages[number] = _id_of(f"{identity}\n{number}")
            born = root.facts.births.get(number, 0)
            births[number] = min(births.get(number, born), born)
    committed = dict.fromkeys(lineages, 0)
    return replace(
        first,
        incarnation=_id_of(identity),
        lineages=lineages,
        births=births,
        committed=committed,
    )


def _id_of(text: str) -> str:
    return blake2b(text.encode(), digest_size=_ID_BYTES).hexdigest()
