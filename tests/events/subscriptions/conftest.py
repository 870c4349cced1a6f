"""Fixtures of the scenarios of subscriptions."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.events.subscriptions.subscribed import SubscribedBench
from tests.log.fixtures import root

__all__ = ["root"]


@pytest.fixture
def make_bench(root: Path) -> Iterator[Callable[..., SubscribedBench]]:
    """Make a bench, in a root of its own."""
    benches: list[SubscribedBench] = []

    def make(**options: Any) -> SubscribedBench:
        benches.append(SubscribedBench(root / f"root-{len(benches)}", **options))
        return benches[-1]

    yield make
    for bench in benches:
        bench.close()


@pytest.fixture
def bench(make_bench: Callable[..., SubscribedBench]) -> SubscribedBench:
    """A store with two types."""
    bench = make_bench()
    bench.define("order", amount="int", note="string | null")
    bench.define("pay", amount="int")
    return bench
