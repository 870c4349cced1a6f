"""What is noted of a shard is held against what it has."""

from storage_core.format.head import encode_most
from storage_core.format.keys import FAMILY_DEFAULT
from storage_core.format.shard_state import KEY_DROPPED, KEY_HEADS_MOST, encode_int
from storage_core.verify.verify import verify_shard


def test_note_that_a_head_is_above_is_told(make_bench):
    bench = make_bench(block_records=1)
    bench.keep(range(40))
    bench.keep([50])
    bench.close()
    bench.change((FAMILY_DEFAULT, KEY_HEADS_MOST, encode_most(38)))
    bench.open()
    (problem,) = verify_shard(bench.shard).problems
    assert (problem.kind, problem.key) == ("head", KEY_HEADS_MOST)
    assert "38" in problem.message
    assert "39" in problem.message


def test_more_dropped_dead_letters_than_were_cleared_are_told(make_bench):
    bench = make_bench()
    bench.keep(range(4))
    bench.close()
    bench.change((FAMILY_DEFAULT, KEY_DROPPED, encode_int(1)))
    bench.open()
    (problem,) = verify_shard(bench.shard).problems
    assert (problem.kind, problem.key) == ("counter", KEY_DROPPED)
    assert (
        "1 dead letters are counted as dropped, retried or discarded, but only 0 as cleared"
        in problem.message
    )
