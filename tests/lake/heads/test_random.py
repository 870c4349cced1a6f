"""Runs against all rows that were ever committed, under random steps, with crashes at any call.

A step appends and seals, compacts, lets rows expire, publishes, or takes or damages a run. After
each no run has a wrong head, and none of a live row is missing but of runs that were taken or
damaged; those are written again by a repair.
"""

import shutil
import tempfile
from datetime import timedelta
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.lake.heads.heads_lab import BORN, HeadsLab
from tests.lake.publish.publish_lab import die_in
from tests.log.fixtures import MEMORY
from tests.thin import rounds

EXAMPLES = rounds("SHARDLOG_FAULT_LAKE", few=8, many=200)

_actions = st.one_of(
    st.tuples(st.just("fill"), st.integers(1, 40)),
    st.tuples(st.just("fill_and_publish"), st.integers(1, 9)),
    st.tuples(st.just("compact")),
    st.tuples(st.just("expire"), st.integers(5, 80)),
    st.tuples(st.just("die"), st.integers(1, 14), st.booleans()),
    st.tuples(st.just("take"), st.integers(0, 9)),
    st.tuples(st.just("damage_some"), st.integers(0, 9)),
)


class RandomLab(HeadsLab):
    """The steps there are."""

    def __init__(self, root: Path, **options: Any) -> None:
        super().__init__(root, **options)
        self.end = BORN
        self.is_whole = True

    def fill(self, count: int) -> None:
        self.seal(self.end, self.end + count)
        self.end += count

    def fill_and_publish(self, times: int) -> None:
        """Publish several times, so that there is something to merge."""
        for _ in range(times):
            self.fill(7)
            self.publish()

    def compact(self) -> None:
        self.copy.stream.compact()

    def expire(self, rows: int) -> None:
        self.copy.stream.alter(retention=timedelta(milliseconds=1))
        self.copy.stream.expire(now=max(0, self.end - rows))

    def die(self, call: int, behind: bool) -> None:
        die_in(lambda: self.fill_and_publish(1), call, "put", "commit_all", "delete", behind=behind)

    def take(self, place: int) -> None:
        """Let a run be gone."""
        paths = self.paths()
        if paths:
            self.store.delete(self.target, paths[place % len(paths)])
            self.is_whole = False

    def damage_some(self, place: int) -> None:
        """Let a run be damaged."""
        paths = self.paths()
        if paths:
            self.damage(paths[place % len(paths)])
            self.is_whole = False


@given(st.lists(_actions, min_size=6, max_size=14), st.booleans())
@settings(max_examples=EXAMPLES)
def test_runs_have_the_heads_of_live_rows_whatever_was_done(actions: list[Any], has_keys: bool):
    folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None))
    options: dict[str, Any] = {"key_mode": "dictionary"} if has_keys else {}
    lab = RandomLab(folder, keep_replaced=timedelta(0), **options)
    try:
        lab.fill_and_publish(1)
        for name, *arguments in actions:
            getattr(lab, name)(*arguments)
            lab.check(is_whole=lab.is_whole)
        lab.fill_and_publish(1)
        lab.repair()
        lab.check()
    finally:
        lab.release()
        shutil.rmtree(folder)
