"""The table against the stream, under random steps, with crashes at any call to the table.

A step appends, seals, compacts, trims, lets rows expire or publishes; a publisher may die before or
behind any call. After each step the table has each visible row below the published address once,
and a reader that follows its changes has got no row twice.
"""

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lake.publish.publish_lab import PublishLab, die_in
from tests.log.fixtures import MEMORY
from tests.thin import rounds

EXAMPLES = rounds("SHARDLOG_FAULT_LAKE", few=8, many=200)

_fill = st.tuples(st.just("fill"), st.integers(1, 40))
_death = st.tuples(st.just("die"), st.integers(1, 12), st.booleans())
_actions = st.one_of(
    _fill,
    _fill,
    _fill,
    st.tuples(st.just("refill"), st.integers(4, 6), st.integers(4, 12)),
    st.tuples(st.just("compact")),
    st.tuples(st.just("trim")),
    st.tuples(st.just("begin_hour")),
    st.tuples(st.just("expire"), st.integers(0, 60)),
    st.tuples(st.just("publish")),
    st.tuples(st.just("publish")),
    _death,
    _death,
    st.tuples(st.just("reopen")),
)


class RandomLab(PublishLab):
    """The steps there are."""

    def refill(self, times: int, count: int) -> None:
        """Make so many neighbours that there is something to compact."""
        for _ in range(times):
            self.fill(count)

    def compact(self) -> None:
        self.stream.compact()

    def trim(self) -> None:
        self.stream.trim()

    def die(self, call: int, behind: bool) -> None:
        die_in(self.publish, call, behind=behind)


@given(st.lists(_actions, min_size=6, max_size=14), st.booleans())
@settings(max_examples=EXAMPLES)
def test_table_has_each_visible_row_once_whatever_was_done(actions: list[Any], has_keys: bool):
    folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    mode = "dictionary" if has_keys else "none"
    lab = RandomLab(folder, key_mode=mode, keep_replaced=timedelta(0))
    try:
        for name, *arguments in actions:
            getattr(lab, name)(*arguments)
            lab.check()
        lab.publish()
        lab.check()
        assert lab.publish().commits == 0
    finally:
        lab.stream.close()
        shutil.rmtree(folder)
