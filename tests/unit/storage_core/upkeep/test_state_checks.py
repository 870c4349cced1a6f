"""What is noted of all heads is held against each of them."""

from storage_core.format.head import encode_most
from storage_core.format.keys import FAMILY_DEFAULT
from storage_core.format.shard_state import KEY_HEADS_MOST
from storage_core.upkeep.verify import verify_shard


def test_note_that_a_head_is_above_is_told(make_bench):
    bench = make_bench(block_records=1)
    bench.keep(range(40))
    bench.keep([50])
    bench.close()
    bench.change((FAMILY_DEFAULT, KEY_HEADS_MOST, encode_most(40, 38)))
    bench.open()
    (problem,) = verify_shard(bench.shard).problems
    assert (problem.kind, problem.key) == ("head", KEY_HEADS_MOST)
    assert "38" in problem.what
    assert "39" in problem.what
