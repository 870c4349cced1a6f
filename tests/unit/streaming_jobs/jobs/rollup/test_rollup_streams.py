"""The streams that roll-ups are kept in: the newest row counts, and other streams are refused."""

import numpy as np
import pyarrow as pa
import pytest

from storage_core import (
    ForeignDataError,
    InvalidRequestError,
    Stream,
    StreamOptions,
    describe_stream,
)
from storage_core.avro import encode_batch, frame_of
from streaming_jobs.jobs.rollup.calendar import Calendar
from streaming_jobs.jobs.rollup.rollup_record import records_of, rollup_schema
from streaming_jobs.jobs.rollup.rollup_streams import RollupStreams
from streaming_jobs.jobs.rollup.rollups import Measurements, roll_up

BERLIN = Calendar.of("Europe/Berlin")
FIRST_MS = 1_700_000_000_000


def streams(root, calendar=BERLIN, measure="temperature", has_keys=False) -> RollupStreams:
    return RollupStreams(str(root), "rolled", calendar, measure, has_keys, shards=1)


def keep(root, *values: float) -> None:
    """Keep a roll-up of one hour, of each value anew."""
    made = Stream.create(root, "rolled-hour", StreamOptions(shards=1))
    for value in values:
        times = np.array([FIRST_MS])
        zero = np.zeros(1, np.int64)
        starts = BERLIN.starts("hour", times)
        ids = pa.array([7], pa.int32())
        rollups = roll_up(
            Measurements(ids, starts, times, np.array([value]), zero.astype(np.int32), zero)
        )
        frame = frame_of(rollup_schema(), None)
        records = records_of(rollups, "hour", BERLIN, "temperature")
        (body,) = encode_batch(records, rollup_schema(), frame=frame).to_pylist()
        made.append(int(starts[0]), 7, body)
    made.close()


def test_newest_rollup_of_an_id_and_window_counts(tmp_path):
    keep(tmp_path, 1.0, 2.0, 3.0)
    stored = streams(tmp_path).newest("hour", FIRST_MS - 3_600_000, FIRST_MS, [7, 8])
    assert [(row["id"], row["sum"]) for row in stored.to_pylist()] == [(7, 3.0)]
    assert streams(tmp_path).newest("hour", FIRST_MS, FIRST_MS + 1, None).num_rows == 0
    assert streams(tmp_path).newest("day", 0, FIRST_MS, None).num_rows == 0


def test_stream_of_the_same_measure_and_zone_is_gone_on_with(tmp_path):
    keep(tmp_path, 1.0)
    for level in ("hour", "day"):
        streams(tmp_path).check(level)


@pytest.mark.parametrize(
    "other", [{"calendar": Calendar.of("UTC")}, {"measure": "humidity"}], ids=["zone", "measure"]
)
def test_stream_of_another_zone_or_measure_is_refused(tmp_path, other):
    keep(tmp_path, 1.0)
    with pytest.raises(InvalidRequestError, match=r"keeps temperature by the calendar of Europe"):
        streams(tmp_path, **other).check("hour")


@pytest.mark.parametrize("options", [{"unit": "s"}, {"key_mode": "dictionary"}])
def test_stream_that_was_made_otherwise_is_refused(tmp_path, options):
    Stream.create(tmp_path, "rolled-day", StreamOptions(shards=1, **options)).close()
    with pytest.raises(InvalidRequestError, match="not one that roll-ups of this stream"):
        streams(tmp_path).check("day")


def test_stream_with_other_rows_is_refused(tmp_path):
    with Stream.create(tmp_path, "rolled-day", StreamOptions(shards=1)) as other:
        other.append(FIRST_MS, 1, b"something else")
    with pytest.raises(ForeignDataError, match="no roll-ups"):
        streams(tmp_path).check("day")


@pytest.mark.parametrize(("has_keys", "mode"), [(True, "dictionary"), (False, "none")])
def test_stream_is_made_as_it_is_asked_for(tmp_path, has_keys, mode):
    made = streams(tmp_path, has_keys=has_keys)
    made.make("hour")
    made.check("hour")
    assert made.is_there("hour")
    assert describe_stream(tmp_path, "rolled-hour").options.key_mode == mode


def test_stream_of_rollups_that_go_by_a_cap_is_refused(tmp_path):
    Stream.create(tmp_path, "rolled-day", StreamOptions(shards=1, records_max=9)).close()
    with pytest.raises(InvalidRequestError, match="keeps no more than records_max 9"):
        streams(tmp_path).check("day")
