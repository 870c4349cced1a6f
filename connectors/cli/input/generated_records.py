"""Generated telemetry: devices that report a temperature, some of them late.

A plan says everything, its seed included: the same plan gives the same records, byte for byte.
Chance is drawn in chunks of a fixed size, each from the plan's seed and the chunk's own number.

    key      the device, 4 bytes, big-endian: what Kafka's IntegerSerializer writes
    value    {"device":17,"seq":4,"temperature":21.53,"at":1700000000000}, white space before the
             closing brace up to the size asked for; `seq` is the record's number in the plan

Time runs with the record's number. A record that is not late is never below an earlier one of
its device; a late one always is, so a device's first record is never late.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from connectors.cli.input.record_lines import Outgoing
from storage_core import INT64_MAX, InvalidRequestError

DEVICES_MAX: Final = 2**24
RECORDS_MAX: Final = 2**40
VALUE_BYTES_MAX: Final = 2**20
TIME_MS_MAX: Final = 2**52

_CHUNK_RECORDS: Final = 4096
_NO_TIME: Final = -1

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TelemetryPlan:
    """What to make.

    Attributes:
        records: How many records.
        devices: How many devices, numbered from 0.
        skew: 0 lets all devices report equally often; above, device n reports in proportion
            to 1 / (n + 1) ** skew.
        late_share: The share of records that come late, from 0 to 1.
        late_by_ms_max: How far below its device's latest time a late record may lie.
        rate: Records a second, by their timestamps; None lets each device report about once
            a second.
        seed: What chance is drawn from.
        start_ms: Timestamp of the first record.
        value_bytes: Bytes of a value; a value that needs more is longer.
    """

    records: int
    devices: int = 1000
    skew: float = 0.0
    late_share: float = 0.0
    late_by_ms_max: int = 60_000
    rate: float | None = None
    seed: int = 0
    start_ms: int = 1_700_000_000_000
    value_bytes: int = 100

    def __post_init__(self) -> None:
        """Refuse what cannot be made, naming the part."""
        _check_range("records", self.records, 0, RECORDS_MAX)
        _check_range("devices", self.devices, 1, DEVICES_MAX)
        _check_range("skew", self.skew, 0, 10)
        _check_range("late_share", self.late_share, 0, 1)
        _check_range("late_by_ms_max", self.late_by_ms_max, 1, TIME_MS_MAX)
        _check_range("seed", self.seed, 0, INT64_MAX)
        _check_range("start_ms", self.start_ms, self.late_by_ms_max, TIME_MS_MAX)
        _check_range("value_bytes", self.value_bytes, 0, VALUE_BYTES_MAX)
        if self.rate is not None:
            _check_range("rate", self.rate, 1e-3, 1e9)

    @property
    def records_per_second(self) -> float:
        """How many records bear the timestamps of one second."""
        return float(self.devices) if self.rate is None else self.rate

    @property
    def span_ms(self) -> int:
        """How far the last record's time lies after the first's, lateness apart."""
        return int(max(self.records - 1, 0) * 1000 / self.records_per_second)


def generated_records(plan: TelemetryPlan) -> Iterator[Outgoing]:
    """Yield the plan's records."""
    shares = _cumulative_shares(plan)
    # Of each device the time of its latest record that was not late.
    latest = np.full(plan.devices, _NO_TIME, dtype=np.int64)
    for number, first in enumerate(range(0, plan.records, _CHUNK_RECORDS)):
        chance = np.random.default_rng((plan.seed, number))
        # Always a whole chunk is drawn: a longer plan begins with the records of a shorter one.
        drawn = chance.random((3, _CHUNK_RECORDS))
        late_by = chance.integers(1, plan.late_by_ms_max, _CHUNK_RECORDS, endpoint=True)
        count = min(_CHUNK_RECORDS, plan.records - first)
        device = _devices(plan, shares, drawn[0, :count])
        seq = np.arange(first, first + count)
        on_time = plan.start_ms + (seq * (1000 / plan.records_per_second)).astype(np.int64)
        wants_late = drawn[1, :count] < plan.late_share
        times = _with_late_ones(latest, device, on_time, wants_late, late_by[:count])
        temperature = 15 + device % 16 + 5 * drawn[2, :count]
        values = _values(plan, device, seq, temperature, times)
        yield from map(Outgoing, _keys(device), values, times.tolist())


def _cumulative_shares(plan: TelemetryPlan) -> npt.NDArray[np.float64] | None:
    """Return the share of the devices up to each, or None where all report equally often."""
    if not plan.skew:
        return None
    weights = np.arange(1, plan.devices + 1, dtype=np.float64) ** -plan.skew
    total = np.cumsum(weights)
    shares: npt.NDArray[np.float64] = total / total[-1]
    return shares


def _devices(
    plan: TelemetryPlan,
    shares: npt.NDArray[np.float64] | None,
    drawn: npt.NDArray[np.float64],
) -> Int64s:
    if shares is None:
        return (drawn * plan.devices).astype(np.int64)
    return np.searchsorted(shares, drawn, side="right")


def _with_late_ones(
    latest: Int64s,
    device: Int64s,
    on_time: Int64s,
    wants_late: npt.NDArray[np.bool_],
    late_by: Int64s,
) -> Int64s:
    """Return the records' times and note each device's latest one in `latest`.

    Time runs with the record's number, so the latest time before a record is that of the
    closest record before it, of the same device, that is not late.
    """
    order = np.argsort(device, kind="stable")
    ordered = device[order]
    starts = np.flatnonzero(np.diff(ordered, prepend=-1))
    start_of_group = np.repeat(starts, np.diff(starts, append=len(ordered)))
    # A device's very first record is never late.
    late = wants_late[order]
    late[starts] &= latest[ordered[starts]] != _NO_TIME
    times = on_time[order]
    place = np.arange(len(ordered))
    on_time_place = np.maximum.accumulate(np.where(late, -1, place))
    before = np.where(on_time_place >= start_of_group, times[on_time_place], latest[ordered])
    moved = np.where(late, before - late_by[order], times)
    ends = np.append(starts[1:], len(ordered)) - 1
    latest[ordered[ends]] = before[ends]
    record_times = np.empty_like(times)
    record_times[order] = moved
    return record_times


def _keys(device: Int64s) -> list[bytes]:
    packed = device.astype(">i4").tobytes()
    return [packed[at : at + 4] for at in range(0, len(packed), 4)]


def _values(
    plan: TelemetryPlan,
    device: Int64s,
    seq: Int64s,
    temperature: npt.NDArray[np.float64],
    times: Int64s,
) -> list[bytes]:
    open_bytes = max(plan.value_bytes - 1, 0)
    columns = zip(device.tolist(), seq.tolist(), temperature.tolist(), times.tolist(), strict=True)
    return [
        (b'{"device":%d,"seq":%d,"temperature":%.2f,"at":%d' % row).ljust(open_bytes) + b"}"
        for row in columns
    ]


def _check_range(name: str, value: float, least: float, most: float) -> None:
    # Written so that NaN is refused too.
    if not least <= value <= most:
        message = f"{name.replace('_', '-')}: {value} is not from {least} to {most}"
        raise InvalidRequestError(message)
