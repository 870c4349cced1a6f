"""A commit broken off for good, anywhere and by whatever error, poisons its shard.

Nobody knows what the disk holds until it is asked, so the shard refuses everything until it is
opened again.
"""

import pytest

from storage_core import ShardPoisonedError
from storage_core.testing import SimulatedCrash

MOMENTS = ["before write", "after write", "before sync", "after sync", "before publish"]


@pytest.fixture
def bench(make_bench, hooked):
    bench = make_bench(unit="sequence", environment=hooked.environment)
    bench.keep([1])
    return bench


@pytest.mark.parametrize("error", [KeyboardInterrupt, SimulatedCrash, GeneratorExit, MemoryError])
@pytest.mark.parametrize("moment", MOMENTS)
def test_commit_that_any_error_breaks_off_refuses_work_until_the_shard_is_opened_again(
    bench, hooked, moment, error
):
    def break_off() -> None:
        hooked.on(moment, break_off)
        raise error

    hooked.on(moment, break_off)
    with pytest.raises(error):
        bench.keep([2])
    hooked.on(moment, lambda: None)
    for call in (lambda: bench.append([3]), bench.commit):
        with pytest.raises(ShardPoisonedError, match="reopen the stream"):
            call()
    assert bench.primaries() in ([1], [1, 2])
    bench.let_go()
    bench.open()
    assert bench.primaries() == ([1] if moment == "before write" else [1, 2])
