"""Several roots that have the partitions of one topic between them, read as one stream."""

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from storage_core import (
    RETRY_SHARDS_FROM,
    Environment,
    ForeignDataError,
    InvalidRequestError,
    LostRangeError,
    ServerOptions,
    Stream,
    StreamOptions,
    StreamOrigin,
    StreamReader,
    UnavailableError,
    list_streams,
)
from storage_core.testing import ManualClock
from tests.log.serve.owners import (
    NAME,
    Produced,
    Root,
    Topic,
    expect_all,
    served_at,
    together,
    triples,
)
from tests.log.served import AT_ONCE
from tests.log.workbench import Workbench, batch_of, column_of

WINDOW_MS = 60_000


@pytest.fixture
def topic() -> Topic:
    topic = Topic(partitions=2)
    for shard in range(2):
        topic.produce(shard, 100)
    return topic


@pytest.fixture
def roots(root: Path, topic: Topic) -> Iterator[tuple[Root, Root]]:
    with Root(root / "a", topic) as a, Root(root / "b", topic) as b:
        yield a, b


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def reader_of(stack: ExitStack, *roots: Root, options: ServerOptions = AT_ONCE) -> StreamReader:
    servers = [stack.enter_context(served_at(root)) for root in roots]
    return stack.enter_context(StreamReader.open(together(*servers), NAME, server=options))


def test_each_partition_is_read_from_the_root_that_has_it(topic, roots, stack) -> None:
    a, b = roots
    a.take(0)
    b.take(1)
    a.store(0, 60)
    b.store(1, 80)
    reader = reader_of(stack, a, b)
    assert reader.committed() == {0: a.committed(0), 1: b.committed(1)}
    expect_all(reader, topic.below({0: 60, 1: 80}))


def test_partition_that_moved_is_one_log_in_two_pieces(topic, roots, stack) -> None:
    a, b = roots
    a.owned_before(0, 60)
    b.take(0, born=50)
    reader = reader_of(stack, a, b)
    # The new owner is behind where the old one ended, and nothing goes back.
    assert reader.committed() == {0: a_end(topic, 60)}
    expect_all(reader, topic.below({0: 60}))
    b.store(0, 90)
    assert reader.committed() == {0: b.committed(0)}
    expect_all(reader, topic.below({0: 90}))
    assert (reader.start(0), reader.born(0)) == (0, 0)
    assert reader.missing(0, 0, 90) == []
    latest = reader.read(latest_by="primary")
    right = {(one.secondary, one.primary): one for one in topic.below({0: 90})}
    rows = sorted(one.row() for one in right.values() if one.payload is not None)
    assert triples(latest) == sorted(rows, key=lambda row: row[:4])


def a_end(topic: Topic, end: int) -> int:
    return topic.between(0, 0, end)[-1].address + 1


def test_owner_is_followed_in_mid_scan(topic, roots, stack) -> None:
    a, b = roots
    a.owns(0, 100)
    first = stack.enter_context(served_at(a))
    second = stack.enter_context(served_at(b))
    reader = stack.enter_context(StreamReader.open(together(first, second), NAME, server=AT_ONCE))
    batches = reader.tail(0)
    seen = triples([next(batches)])
    a.leave(0)
    b.owns(0, 110)
    topic.produce(0, 20)
    end = a_end(topic, 100)
    first.close()
    reader.refresh()
    seen += triples(batches)
    assert seen == [one.row() for one in topic.between(0, 0, end)]


def test_tail_goes_on_at_the_new_owner(topic, roots, stack) -> None:
    a, b = roots
    a.owns(0, 40)
    reader = reader_of(stack, a, b)
    position = reader.committed()[0]
    seen = triples(reader.tail(0, 0, position))
    a.leave(0)
    b.take(0, born=30)
    assert not reader.wait(0, position, 0)
    b.store(0, 70)
    assert reader.wait(0, position, 60)
    end = reader.committed()[0]
    seen += triples(reader.tail(0, position, end))
    assert seen == [one.row() for one in topic.between(0, 0, 70)]


def test_owner_that_is_away_is_named_and_nothing_is_short(topic, roots, stack) -> None:
    a, b = roots
    a.take(0)
    b.take(1)
    a.store(0, 60)
    b.store(1, 60)
    first, second = (stack.enter_context(served_at(each)) for each in (a, b))
    reader = stack.enter_context(StreamReader.open(together(first, second), NAME, server=AT_ONCE))
    second.close()
    for call in (
        reader.committed,
        reader.read,
        lambda: list(reader.scan()),
        reader.latest,
        reader.earliest,
        lambda: list(reader.tail(1)),
        lambda: list(reader.tail(1, 0, 10)),
    ):
        with pytest.raises(UnavailableError, match=second.address) as raised:
            call()
        assert raised.value.shard == 1
    assert triples(reader.tail(0)) == [one.row() for one in topic.between(0, 0, 60)]


def test_old_root_that_is_away_is_named_for_what_it_alone_has(topic, roots, stack) -> None:
    a, b = roots
    a.owned_before(0, 60)
    b.owns(0, 90, born=50)
    first, second = (stack.enter_context(served_at(each)) for each in (a, b))
    reader = stack.enter_context(StreamReader.open(together(first, second), NAME, server=AT_ONCE))
    first.close()
    assert reader.committed() == {0: b.committed(0)}
    assert triples(reader.tail(0, 50)) == [one.row() for one in topic.between(0, 50, 90)]
    with pytest.raises(UnavailableError, match=first.address) as raised:
        list(reader.tail(0))
    assert (raised.value.shard, raised.value.start, raised.value.end) == (0, 0, 50)
    with pytest.raises(UnavailableError, match=first.address):
        reader.read()


def test_end_is_not_known_while_the_owner_may_be_away(topic, roots, stack) -> None:
    a, b = roots
    a.owned_before(0, 60)
    b.take(0, born=50)
    first, second = (stack.enter_context(served_at(each)) for each in (a, b))
    reader = stack.enter_context(StreamReader.open(together(first, second), NAME, server=AT_ONCE))
    end = reader.committed()[0]
    second.close()
    with pytest.raises(UnavailableError, match=second.address):
        reader.committed()
    assert triples(reader.tail(0, 0, end)) == [one.row() for one in topic.between(0, 0, 60)]


def test_shard_that_a_server_took_while_it_was_away_is_not_shown_short(
    root: Path, topic, roots, stack
) -> None:
    a, b = roots
    c = stack.enter_context(Root(root / "c", topic))
    a.take(0)
    servers = [stack.enter_context(served_at(each)) for each in (a, b, c)]
    reader = stack.enter_context(StreamReader.open(together(*servers), NAME, server=AT_ONCE))
    servers[2].close()
    a.leave(0)
    c.take(0)
    c.store(0, 60)
    with pytest.raises(UnavailableError, match=servers[2].address):
        reader.committed()
    c.leave(0)
    b.take(0, born=60)
    b.store(0, 90)
    assert reader.refresh() == {0: b.committed(0)}
    assert triples(reader.tail(0, 60)) == [one.row() for one in topic.between(0, 60, 90)]
    for call in (reader.scan, lambda: reader.tail(0)):
        with pytest.raises(UnavailableError, match=servers[2].address) as raised:
            list(call())
        assert (raised.value.shard, raised.value.start, raised.value.end) == (0, 0, 60)
    stack.enter_context(served_at(c, servers[2].port))
    reader.refresh()
    assert triples(reader.tail(0)) == [one.row() for one in topic.between(0, 0, 90)]


def test_log_that_begins_late_is_whole_though_a_server_without_it_is_away(roots, stack) -> None:
    a, b = roots
    a.take(0, born=10)
    a.store(0, 60)
    b.take(1)
    first, second = (stack.enter_context(served_at(each)) for each in (a, b))
    reader = stack.enter_context(StreamReader.open(together(first, second), NAME, server=AT_ONCE))
    rows = triples(reader.tail(0))
    second.close()
    assert rows == triples(reader.tail(0))
    assert len(rows) > 0


def test_rows_that_the_owner_let_expire_are_not_shown_from_another_root(
    root: Path, topic, stack
) -> None:
    day = timedelta(days=1)
    a, b = (stack.enter_context(Root(root / name, topic, retention=day)) for name in ("c", "d"))
    a.owned_before(0, 60)
    b.owns(0, 90, born=50)
    reader = reader_of(stack, a, b)
    b.stream.expire(now=30 + int(day.total_seconds()) * 1000)
    visible = [one.row() for one in topic.between(0, 0, 90) if one.primary >= 30]
    assert 0 < len(visible) < len(topic.between(0, 0, 90))
    assert triples(reader.read()) == sorted(visible, key=lambda row: row[:4])
    assert sorted(triples(reader.scan())) == sorted(visible)


def test_tombstone_of_one_root_hides_what_another_has(roots, stack) -> None:
    a, b = roots
    a.topic.records[0] = b.topic.records[0] = [
        Produced(0, 0, 7, 5, b"old"),
        Produced(0, 1, 8, 5, b"kept"),
        Produced(0, 2, 7, 5, None),
    ]
    a.owned_before(0, 2)
    b.owns(0, 3, born=2)
    reader = reader_of(stack, a, b)
    assert reader.read(latest_by="primary").column("payload").to_pylist() == [b"kept"]
    limited = reader.read(latest_by="primary", limit=1)
    assert limited.column("payload").to_pylist() == [b"kept"]


def test_server_that_is_away_at_the_start_may_have_some_of_it(topic, roots, stack) -> None:
    a, b = roots
    a.owns(0, 60, born=10)
    first, second = (stack.enter_context(served_at(each)) for each in (a, b))
    second.close()
    with pytest.raises(UnavailableError, match=second.address):
        StreamReader.open(together(first, second), NAME, server=AT_ONCE)
    twins = f"shardlog://{first.address}+{second.address}"
    with StreamReader.open(twins, NAME, server=AT_ONCE) as reader:
        assert reader.read().num_rows == len(topic.between(0, 10, 60))


def test_server_that_is_away_at_the_start_may_have_shards_that_no_other_has(roots, stack) -> None:
    a, b = roots
    for shard, root in enumerate((a, b)):
        root.owns(shard, 60)
    first, second = (stack.enter_context(served_at(each)) for each in (a, b))
    second.close()
    with pytest.raises(UnavailableError, match=second.address):
        StreamReader.open(together(first, second), NAME, server=AT_ONCE)


def test_hole_between_two_copies_is_a_loss(topic, roots, stack) -> None:
    a, b = roots
    a.owned_before(0, 40)
    b.owns(0, 90, born=55)
    reader = reader_of(stack, a, b)
    end = a_end(topic, 40)
    for call in (reader.read, lambda: list(reader.scan()), lambda: list(reader.tail(0))):
        with pytest.raises(LostRangeError) as raised:
            call()
        assert (raised.value.shard, raised.value.start, raised.value.end) == (0, end, 55)
    assert reader.missing(0, 0, 90) == [(end, 55)]
    assert triples(reader.tail(0, 55)) == [one.row() for one in topic.between(0, 55, 90)]


def test_roots_of_two_topics_are_foreign(root: Path, roots, stack) -> None:
    a, _ = roots
    a.take(0)
    other = Topic(partitions=1, topic_id="topic-id-2")
    with Root(root / "c", other) as c:
        c.take(0)
        with pytest.raises(ForeignDataError, match="topic-id-2"):
            reader_of(stack, a, c)


def test_streams_that_are_no_copies_are_not_read_together(root: Path, stack) -> None:
    addresses = []
    for folder in ("a", "b"):
        bench = Workbench(root / folder, NAME)
        stack.callback(bench.release)
        bench.keep([1])
        server = Root.__new__(Root)
        server.root = root / folder
        addresses.append(stack.enter_context(served_at(server)))
    with pytest.raises(ForeignDataError, match="roots of their own"):
        StreamReader.open(together(*addresses), NAME, server=AT_ONCE)


def test_offsets_hold_whoever_owns_a_partition(roots, stack) -> None:
    a, b = roots
    a.owns(0, 30)
    reader = reader_of(stack, a, b)
    before = reader.position()
    a.leave(0)
    b.owns(0, 60)
    reader.refresh()
    after = reader.position()
    assert after.incarnation == before.incarnation
    assert after.shards[0].lineage == before.shards[0].lineage
    assert after.shards[0].address > before.shards[0].address


def test_stream_comes_to_a_root_later(topic, roots, stack) -> None:
    a, b = roots
    a.owns(0, 60)
    reader = reader_of(stack, a, b)
    b.owns(1, 20)
    reader.refresh()
    expect_all(reader, topic.below({0: 60, 1: 20}))


def test_owner_that_has_made_the_stream_a_moment_ago_is_found(root: Path, topic, stack) -> None:
    a = stack.enter_context(Root(root / "a", topic))
    a.owns(0, 60)
    Stream.create(root / "b", "another").close()
    servers = [stack.enter_context(served_at(root / name)) for name in ("a", "b")]
    # No moment passes by the reader's clock, so that nothing is asked again for having waited.
    still = Environment(clock=ManualClock())
    reader = stack.enter_context(
        StreamReader.open(together(*servers), NAME, server=AT_ONCE, environment=still)
    )
    assert reader.committed() == {0: a.committed(0)}
    a.leave(0)
    b = stack.enter_context(Root(root / "b", topic))
    b.owns(0, 90, born=60)
    assert reader.committed() == {0: b.committed(0)}
    assert triples(reader.tail(0)) == [one.row() for one in topic.between(0, 0, 90)]


def test_servers_over_one_root_are_asked_in_turn_as_before(topic, roots, stack) -> None:
    a, _ = roots
    a.owns(0, 60)
    first, second = (stack.enter_context(served_at(a)) for _ in range(2))
    reader = stack.enter_context(StreamReader.open(together(first, second), NAME, server=AT_ONCE))
    with StreamReader.open(a.root, NAME) as by_path:
        assert reader.position() == by_path.position()
    first.close()
    assert reader.read().num_rows == len(topic.between(0, 0, 60))


def test_counts_of_a_log_in_pieces_are_refused(roots, stack) -> None:
    a, b = roots
    a.owned_before(0, 60)
    b.take(0, born=50)
    reader = reader_of(stack, a, b)
    with pytest.raises(InvalidRequestError, match="each has counted"):
        reader.stats()


def test_rows_that_expired_at_the_owner_are_shown_from_nowhere(root: Path, stack) -> None:
    topic = Topic(partitions=1)
    topic.produce(0, 200)
    options = {"unit": "ms", "retention": timedelta(milliseconds=WINDOW_MS)}
    a = stack.enter_context(Root(root / "a", topic, **options))
    b = stack.enter_context(Root(root / "b", topic, **options))
    a.owned_before(0, 100)
    b.take(0, born=80)
    b.store(0, topic.ends[0])
    reader = reader_of(stack, a, b)
    assert reader.read().num_rows == len(topic.between(0, 0, 10**6))
    b.stream.expire(now=10 * WINDOW_MS)
    # The old root's worker is gone, and lets nothing expire.
    assert reader.read().num_rows == 0
    assert reader.latest() == {}
    with pytest.raises(LostRangeError):
        list(reader.tail(0, 80))
    assert triples(reader.tail(0, 0, 80)) == [one.row() for one in topic.between(0, 0, 80)]


def test_rows_by_key_and_dead_letters_come_from_all_pieces(root: Path, stack) -> None:
    origin = StreamOrigin("kafka", NAME, "topic-id-1", "dictionary", "timestamp")
    servers = []
    for name, born, end in (("a", 0, 50), ("b", 40, 90)):
        options = StreamOptions(key_mode="dictionary")
        Stream.create(root / name, NAME, options, origin=origin).close()
        Stream.add_shards(root / name, NAME, {0: born})
        stream = stack.enter_context(Stream.open(root / name, NAME))
        # Each root numbers its keys as they come.
        addresses = list(range(born, end))
        keys = [b"key-%d" % (address % 3) for address in addresses]
        stream.append_batch(
            batch_of(addresses, secondary=None, key=keys, timestamp=0, timestamp_type=0),
            shard=0,
            addresses=addresses,
            dead_letters={end: b"dead at %d" % end},
        )
        stream.commit()
        if name == "a":
            stream.close()
        served = Root.__new__(Root)
        served.root = root / name
        servers.append(stack.enter_context(served_at(served)))
    reader = stack.enter_context(StreamReader.open(together(*servers), NAME, server=AT_ONCE))
    for number in range(3):
        key = b"key-%d" % number
        right = [address for address in range(90) if address % 3 == number]
        assert column_of(reader.read(keys=key), "address") == right
        assert column_of(reader.read(keys=key, limit=20), "address") == right[:20]
        assert reader.latest(keys=key)[key].address == right[-1]
        newest = reader.read(keys=key, latest_by="primary")
        assert column_of(newest, "address") == right
    assert column_of(reader.read(), "key") == sorted(b"key-%d" % (n % 3) for n in range(90))
    # The first stands below the other copy's rows, which has none there.
    assert list(reader.dead_letters(0)) == [(90, b"dead at 90")]


def test_retried_dead_letters_of_two_roots_are_not_one_log(topic, roots, stack) -> None:
    a, b = roots
    retry = RETRY_SHARDS_FROM
    topic.records[retry], topic.ends[retry] = [], 0
    topic.produce(retry, 5)
    for root in (a, b):
        root.take(0)
        root.take(retry)
    a.store(retry, 3)
    reader = reader_of(stack, a, b)
    assert reader.committed()[retry] == a.committed(retry)
    b.store(retry, 3)
    with pytest.raises(ForeignDataError, match="retried dead letters"):
        reader.committed()


def test_roots_together_have_the_streams_of_all(roots, stack) -> None:
    a, b = roots
    bench = Workbench(b.root, "other")
    stack.callback(bench.release)
    first, second = (stack.enter_context(served_at(each)) for each in (a, b))
    assert list_streams(together(first, second)) == [NAME, "other"]
    second.close()
    assert list_streams(together(first, second)) == [NAME]


def test_shard_that_a_worker_made_and_never_got_says_nothing(topic, roots, stack) -> None:
    a, b = roots
    # With start=latest each worker makes the shards of all partitions, where these end by then.
    b.take(0, born=50)
    b.leave(0)
    a.owns(0, 30)
    reader = reader_of(stack, a, b)
    assert reader.committed() == {0: a.committed(0)}
    expect_all(reader, topic.below({0: 30}))
