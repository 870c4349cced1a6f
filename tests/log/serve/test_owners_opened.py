"""What is opened while servers of several roots do not answer: all of a stream, or an error."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from typing_extensions import override

from storage_core import Environment, ServerOptions, StreamReader, UnavailableError
from storage_core.testing import ManualClock
from tests.log.serve.owners import NAME, Root, Topic, served_at, together
from tests.log.serve.relay import Relay
from tests.log.served import AT_ONCE


@dataclass
class Opening(ManualClock):
    """A clock by which a server begins to answer once it is waited for."""

    relay: Relay | None = None
    port: int = 0

    @override
    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        assert self.relay is not None
        self.relay.port = self.port


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


@pytest.fixture
def owners(root: Path) -> Iterator[tuple[Root, Root]]:
    """Two roots, each with a partition of its own."""
    topic = Topic(partitions=3)
    with Root(root / "a", topic) as a, Root(root / "b", topic) as b:
        for shard, owner in enumerate((a, b)):
            topic.produce(shard, 20)
            owner.take(shard)
            owner.store(shard, 20)
        yield a, b


def test_first_server_that_answers_is_not_taken_for_all_of_them(owners, stack) -> None:
    server = stack.enter_context(served_at(owners[0]))
    first, second = (stack.enter_context(Relay(None)) for _ in owners)
    clock = Opening(relay=first, port=server.port)
    options = ServerOptions(retry_for=timedelta(seconds=5))
    with pytest.raises(UnavailableError, match=second.address):
        StreamReader.open(
            together(first, second), NAME, server=options, environment=Environment(clock=clock)
        )


def test_stream_that_a_silent_server_may_have_is_not_told_to_be_none(owners, stack) -> None:
    server = stack.enter_context(served_at(owners[0]))
    silent = stack.enter_context(Relay(None))
    with pytest.raises(UnavailableError, match=silent.address):
        StreamReader.open(together(server, silent), "another", server=AT_ONCE)


def test_end_of_a_shard_without_rows_is_there(owners, stack) -> None:
    owners[0].take(2)
    servers = [stack.enter_context(served_at(each)) for each in owners]
    reader = stack.enter_context(StreamReader.open(together(*servers), NAME, server=AT_ONCE))
    assert reader.wait(2, -1, 0)
    assert not reader.wait(2, 0, 0)
