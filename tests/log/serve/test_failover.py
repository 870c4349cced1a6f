"""Another server over the same root that is behind: it is not believed, and never shortens rows.

A network file system may show one machine later what another has seen, and a copy of a root has
its ids. So a client says how far it knows each log to reach.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from connectors.serve.server import ShardServer
from connectors.serve.settings import ServeSettings
from storage_core import ReadRequest, StreamReader, UnavailableError
from storage_core.protocol import LINEAGES, REACHED, encode_lineages
from storage_core.testing import ManualClock
from tests.log.serve.served import serving
from tests.log.served import AT_ONCE
from tests.log.workbench import Workbench

CALLS: dict[str, Callable[[StreamReader], object]] = {
    "read": lambda reader: reader.read(),
    "scan": lambda reader: list(reader.scan()),
    "tail": lambda reader: list(reader.tail(0, 3, 9)),
    "shard": lambda reader: list(reader.shard(0).scan(ReadRequest(0, 3, 9))),
    "latest": lambda reader: reader.latest(),
    "committed": lambda reader: reader.committed(),
    "refresh": lambda reader: reader.refresh(),
    "position": lambda reader: reader.position(),
    "wait": lambda reader: reader.wait(0, 7, 0),
    "missing": lambda reader: reader.missing(0, 0, 9),
}
LEARNT_BY: dict[str, Callable[[StreamReader], object]] = {
    "refresh": lambda reader: reader.refresh(),
    "committed": lambda reader: reader.committed(),
    "position": lambda reader: reader.position(),
    "wait": lambda reader: reader.wait(0, 9, 0),
}


@pytest.fixture
def addresses(bench: Workbench, tmp_path: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """Two servers, the second over an older copy; and what ends the first."""
    bench.keep(range(5))
    older = tmp_path / "older"
    shutil.copytree(bench.root, older)
    with serving(bench.root) as first, serving(older) as second:
        both = f"shardlog://{first.server.address},{second.server.address}"
        yield both, first.server.close


@pytest.mark.parametrize("learnt_by", LEARNT_BY)
def test_server_that_is_behind_what_a_client_was_told_is_not_believed(
    bench, addresses, learnt_by
) -> None:
    both, end_first = addresses
    with StreamReader.open(both, bench.name, server=AT_ONCE) as reader:
        bench.keep(range(5, 10))
        LEARNT_BY[learnt_by](reader)
        end_first()
        for call in CALLS.values():
            with pytest.raises(UnavailableError, match="behind"):
                call(reader)


def test_server_that_is_as_far_as_a_client_was_told_takes_over(bench, addresses) -> None:
    both, end_first = addresses
    with StreamReader.open(both, bench.name, server=AT_ONCE) as reader:
        reader.committed()
        end_first()
        assert reader.read().num_rows == 5


def test_server_that_catches_up_answers(bench: Workbench) -> None:
    bench.keep(range(5))
    with serving(bench.root) as served:
        for reached, is_behind in (("0:5", False), ("0:6", True), ("9:1", True), ("", False)):
            served.headers[REACHED] = reached
            if is_behind:
                error = served.refusal("read", bench.name)
                assert type(error) is UnavailableError
                assert "behind" in str(error)
            else:
                assert served.rows("read", bench.name).num_rows == 5
        served.headers[REACHED] = "0:6"
        bench.keep([5])
        assert served.rows("read", bench.name).num_rows == 6


@pytest.mark.parametrize("text", ["nonsense", "0", "0:-1", "0:x", "0:²", "0:" + "9" * 40, "0:1,,"])
def test_header_that_says_no_addresses_is_refused(bench: Workbench, text: str) -> None:
    bench.keep([1])
    with serving(bench.root, headers={REACHED: text}) as served:
        assert served.ask("read", bench.name).status == 400


def test_shard_added_is_known_to_a_server_that_was_not_asked_to_refresh(copy) -> None:
    copy.add({4: 0})
    with serving(copy.root) as first, serving(copy.root) as second:
        second.result("committed", "clicks")
        copy.add({1: 7})
        facts = first.result("refresh", "clicks")
        second.headers[LINEAGES] = encode_lineages(facts.lineages)
        second.headers[REACHED] = "1:7,4:0"
        assert second.result("committed", "clicks") == {1: 7, 4: 0}


def test_root_that_is_away_is_asked_of_the_next_server(bench: Workbench, tmp_path: Path) -> None:
    bench.keep(range(5))
    root = tmp_path / "mounted"
    root.symlink_to(bench.root)
    clock = ManualClock()
    settings = ServeSettings(root=root, listen="127.0.0.1:0")
    with ShardServer(settings, clock=clock) as away, serving(bench.root) as second:
        both = f"shardlog://{away.address},{second.server.address}"
        with StreamReader.open(both, bench.name, server=AT_ONCE) as reader:
            root.unlink()
            clock.advance(2)
            assert reader.read().num_rows == 5
        with pytest.raises(UnavailableError, match="root"):
            StreamReader.open(f"shardlog://{away.address}", bench.name, server=AT_ONCE)
