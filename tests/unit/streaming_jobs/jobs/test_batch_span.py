"""The offsets of a batch, by the plan that Spark has written into the checkpoint."""

import json
from typing import Any

import pytest

from storage_core import ForeignDataError, InvalidRequestError
from streaming_jobs.jobs.batch_span import BatchSpan, span_of

SPARK: Any = None  # asked only for checkpoints elsewhere


def plan(place, batch, ends, *, birth=None, stream="events"):
    folder = place / "offsets"
    folder.mkdir(exist_ok=True)
    identity = {"v": 1, "incarnation": "i", "lineage": {}, "birth": birth}
    offset = json.dumps({stream: ends, "@": identity})
    (folder / str(batch)).write_text(f"v1\n{{}}\n{offset}")


def span(place, batch):
    return span_of(SPARK, str(place), "events", batch)


def test_first_batch_begins_where_the_query_does(tmp_path):
    plan(tmp_path, 0, {"0": 5, "1": 7}, birth={"0": 2, "1": 7})
    assert span(tmp_path, 0) == BatchSpan({0: 2, 1: 7}, {0: 5, 1: 7})


def test_batch_begins_where_the_one_before_it_ends(tmp_path):
    plan(tmp_path, 3, {"0": 5}, birth={"0": 2})
    plan(tmp_path, 4, {"0": 9, "1": 4}, birth={"0": 2})
    assert span(tmp_path, 4) == BatchSpan({0: 5, 1: 0}, {0: 9, 1: 4})
    for location in (f"file://{tmp_path}", f"file:{tmp_path}", f"{tmp_path}/"):
        assert span_of(SPARK, location, "events", 4).ends == {0: 9, 1: 4}


def test_plan_of_another_query_is_refused(tmp_path):
    plan(tmp_path, 0, {"0": 5}, stream="others")
    with pytest.raises(InvalidRequestError, match="of another query; name another directory"):
        span(tmp_path, 0)


def test_plan_that_was_cut_is_told_of(tmp_path):
    plan(tmp_path, 0, {"0": 5})
    text = (tmp_path / "offsets/0").read_text()
    (tmp_path / "offsets/0").write_text(text[:-5])
    with pytest.raises(ForeignDataError, match="plan of batch 0 cannot be read"):
        span(tmp_path, 0)
