"""Telemetry: the same plan is the same records, and late ones are late."""

import json
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.cli.input.generated_records import TelemetryPlan, generated_records
from connectors.cli.input.record_lines import Outgoing
from storage_core import InvalidRequestError
from tests.unit.storage_core.strategies import some

# More than one chunk, so that what is carried over its seam is drawn too.
RECORDS_MAX = 5_000

plans = st.builds(
    TelemetryPlan,
    records=st.integers(0, RECORDS_MAX),
    devices=st.sampled_from([1, 2, 17, 5000]),
    skew=st.sampled_from([0.0, 0.5, 1.2]),
    late_share=st.sampled_from([0.0, 0.05, 0.9, 1.0]),
    late_by_ms_max=st.sampled_from([1, 60_000]),
    rate=st.sampled_from([None, 0.5, 1e6]),
    seed=st.integers(0, 2**63 - 1),
    value_bytes=st.sampled_from([0, 100]),
)


def everything(plan: TelemetryPlan) -> list[Outgoing]:
    return list(generated_records(plan))


def devices_of(records: list[Outgoing]) -> list[int]:
    return [int.from_bytes(key or b"", "big") for key, *_ in records]


def times_of(records: list[Outgoing]) -> list[int]:
    return [record.timestamp_ms or 0 for record in records]


def late_records(records: list[Outgoing]) -> int:
    """Count the records below an earlier one of their device."""
    latest: dict[int, int] = {}
    late = 0
    for key, time_ms in zip(devices_of(records), times_of(records), strict=True):
        late += time_ms < latest.get(key, 0)
        latest[key] = max(time_ms, latest.get(key, 0))
    return late


@some
@given(plans)
def test_the_same_plan_is_the_same_bytes(plan):
    assert everything(plan) == everything(plan)


@some
@given(plans)
def test_a_value_says_what_its_key_and_timestamp_say(plan):
    records = everything(plan)
    parsed = [json.loads(record.value or b"") for record in records]
    assert [one["device"] for one in parsed] == devices_of(records)
    assert [one["at"] for one in parsed] == times_of(records)
    assert [one["seq"] for one in parsed] == list(range(plan.records))


@some
@given(plans, st.integers(0, RECORDS_MAX))
def test_a_longer_plan_begins_with_the_records_of_a_shorter_one(plan, records):
    shorter = replace(plan, records=min(records, plan.records))
    assert everything(plan)[: shorter.records] == everything(shorter)


@some
@given(plans)
def test_where_all_are_late_only_the_first_of_each_device_is_not(plan):
    records = everything(replace(plan, late_share=1))
    assert late_records(records) == len(records) - len(set(devices_of(records)))


def test_the_late_share_is_about_what_the_plan_says():
    records = everything(TelemetryPlan(10_000, devices=10, late_share=0.1))
    assert 900 < late_records(records) < 1100


def test_with_skew_the_first_devices_report_most():
    counts = Counter(devices_of(everything(TelemetryPlan(10_000, devices=100, skew=1))))
    assert counts[0] > 1.5 * counts[1] > 0
    assert counts[0] > 10 * counts[50] > 0


def test_values_have_the_size_asked_for():
    records = everything(TelemetryPlan(100, value_bytes=200))
    assert {len(record.value or b"") for record in records} == {200}


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("devices", 0),
        ("skew", float("nan")),
        ("late_share", 1.01),
        ("rate", 0),
        ("value_bytes", -1),
    ],
)
def test_a_plan_that_cannot_be_made_is_refused_by_its_part(part, value):
    with pytest.raises(InvalidRequestError, match=part.replace("_", "-")):
        TelemetryPlan(**{"records": 1, part: value})
