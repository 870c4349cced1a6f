"""A log with a lake against plain lists, under random steps, while machines and stores fail.

Goal: a partition's rows outlive each machine that had them. Whoever takes over shows what the lists
show, and judges the records that come then as the log before it would have.

Method: the owner of a partition appends, seals, compacts, trims, expires and publishes; its root is
lost, or another takes over while it does not hear of it, or its own root begins anew. Any call to
the store may fail on the way, before it took effect or behind that, and the process may die there.
A file of a part is damaged, here or in the store, and repaired from the other.
After each step the rows of the owner are those of the lists, and the table has each row below the
published address once, as it was written.

SHARDLOG_FAULT_LAKE says how many examples are run.
"""

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from storage_core import UnavailableError
from storage_core.testing import SimulatedCrash
from tests.log.fixtures import MEMORY
from tests.log.parts.parts_lab import FIRST_MS
from tests.model.lake_roots import Roots
from tests.strategies import Given
from tests.thin import rounds

EXAMPLES = rounds("SHARDLOG_FAULT_LAKE", few=6, many=200)
SECOND, DAY = 1000, 86_400_000

# Few ids, whose records tie, come late, or are of a clock that is wrong.
_primaries = st.builds(
    lambda at, by: FIRST_MS + at * SECOND + by,
    st.integers(0, 900),
    st.sampled_from([0, 0, 0, 0, -60 * SECOND, 40 * DAY]),
)
_payloads = st.one_of(st.none(), st.binary(max_size=6))
_records = st.builds(Given, _primaries, st.integers(-2, 3), _payloads, st.sampled_from([0, 0, 1]))
# Each with how many addresses before it no record has.
_rows = st.lists(st.tuples(_records, st.sampled_from([0, 0, 0, 1, 5])), min_size=1, max_size=25)
_failure = (
    st.integers(1, 25),
    st.sampled_from([SimulatedCrash, UnavailableError]),
    st.booleans(),
)
_append = st.tuples(st.just("append"), _rows)
_publish = st.tuples(st.just("publish_all"))
_actions = st.one_of(
    _append,
    _append,
    _append,
    st.tuples(st.just("append_often"), _rows),
    st.tuples(st.just("seal")),
    st.tuples(st.just("seal")),
    st.tuples(st.just("compact")),
    st.tuples(st.just("trim")),
    st.tuples(st.just("reopen")),
    st.tuples(st.just("let_pass"), st.sampled_from([1, 300, 100_000])),
    st.tuples(st.just("expire")),
    _publish,
    _publish,
    _publish,
    st.tuples(st.just("fail_to_publish"), *_failure),
    st.tuples(st.just("publish_formerly")),
    st.tuples(st.just("damage"), st.integers(0, 9), st.booleans()),
    st.tuples(st.just("lose"), *_failure),
    st.tuples(st.just("lose"), *_failure),
    st.tuples(st.just("take_over"), *_failure),
    st.tuples(st.just("begin_again"), *_failure),
)


# One row is ahead of the clock, in a block whose other row expires before it is sealed.
_AHEAD = [(Given(FIRST_MS, 1, b"a", 0), 0), (Given(FIRST_MS + 40 * DAY, 1, b"b", 0), 0)]
# Of a part that has these rows an expiry leaves some.
_MIXED = [*_AHEAD, (Given(FIRST_MS - 2 * 60_000, 1, None, 0), 0)]
_LATER = [(Given(FIRST_MS + 2 * DAY, 2, b"c", 0), 0)]


@given(_rows, st.lists(_actions, min_size=8, max_size=20), st.booleans())
@example(
    _AHEAD,
    [
        ("append", _AHEAD),
        ("let_pass", 100_000),
        ("expire",),
        ("append", _LATER),
        ("publish_all",),
        ("take_over", 25, UnavailableError, True),
    ],
    False,
)
@example(_MIXED, [("let_pass", 100_000), ("expire",), ("damage", 4, True)], False)
@settings(max_examples=EXAMPLES)
def test_rows_outlive_their_machines(first: list[Any], actions: list[Any], has_keys: bool) -> None:
    folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    roots = Roots(
        folder,
        key_mode="dictionary" if has_keys else "none",
        jitter=5 * SECOND,
        # Windows are a minute wide then.
        retention=timedelta(minutes=10),
        block_records=8,
        keep_replaced=timedelta(0),
    )
    try:
        for name, *arguments in ("append_often", first), ("publish_all",), *actions:
            getattr(roots, name)(*arguments)
            roots.check()
        roots.publish_all()
        roots.check()
        assert roots.problems() == []
        # Not after a failure, which what fails to close would hide.
        roots.owner.stream.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
