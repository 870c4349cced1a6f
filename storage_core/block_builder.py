"""Building: single records gathered until they make a block, and rows cut into blocks.

`RecordBuilder` is not locked; its shard's append lock guards it. A record is checked when it
is added, so that a refused one changes nothing.
"""

from operator import index

import numpy as np
import numpy.typing as npt

from storage_core.block import BlockPlace, block_checksum, encode_block
from storage_core.errors import InvalidRequestError
from storage_core.keys import (
    FAMILY_LOG,
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    log_key,
    zone_key,
)
from storage_core.options import StreamOptions
from storage_core.record import Rows, rows_from_tuples
from storage_core.rocks import Batch
from storage_core.zone import Zone, encode_secondaries, encode_zone, primary_spans, state_counts

RecordTuple = tuple[int, int, bytes | None, int]

VERSION_MAX = 2**16 - 1
RECORD_OVERHEAD_BYTES = 32


def _coerced_record(
    primary: object, secondary: object, payload: object, version: object, payload_bytes_max: int
) -> RecordTuple:
    """Return a record as a tuple of exact types, or refuse it.

    Raises:
        InvalidRequestError: A value is of the wrong type or out of range.
    """
    numbers = []
    for name, value, least, most in (
        ("primary", primary, INT64_MIN, INT64_MAX),
        ("secondary", secondary, INT32_MIN, INT32_MAX),
        ("version", version, 0, VERSION_MAX),
    ):
        try:
            number = index(value)  # type: ignore[arg-type]  # refused below
        except TypeError as error:
            message = f"{name} must be an integer, not {type(value).__name__}"
            raise InvalidRequestError(message) from error
        if not least <= number <= most:
            message = f"{name} {number} is outside {least} to {most}"
            raise InvalidRequestError(message)
        numbers.append(number)
    if payload is None:
        return numbers[0], numbers[1], None, numbers[2]
    if not isinstance(payload, bytes | bytearray | memoryview):
        message = f"payload must be bytes or None, not {type(payload).__name__}"
        raise InvalidRequestError(message)
    body = bytes(payload)
    if len(body) > payload_bytes_max:
        message = f"payload has {len(body)} bytes; payload_bytes_max is {payload_bytes_max}"
        raise InvalidRequestError(message)
    return numbers[0], numbers[1], body, numbers[2]


class RecordBuilder:
    """Records of one shard on their way to a block."""

    __slots__ = ("_bytes", "_bytes_max", "_payload_bytes_max", "_records", "_records_max")

    def __init__(self, options: StreamOptions) -> None:
        """Start empty."""
        self._records: list[RecordTuple] = []
        self._bytes = 0
        self.limit(options)

    def limit(self, options: StreamOptions) -> None:
        """Take over the limits of changed options."""
        self._records_max = options.block_records
        self._bytes_max = options.block_bytes
        self._payload_bytes_max = options.payload_bytes_max

    def __len__(self) -> int:
        """Return the number of records gathered."""
        return len(self._records)

    def add(self, primary: int, secondary: int, payload: bytes | None, version: int) -> bool:
        """Gather a record; return whether the block is full."""
        if (
            type(primary) is int
            and type(secondary) is int
            and type(version) is int
            and type(payload) is bytes
            and INT64_MIN <= primary <= INT64_MAX
            and INT32_MIN <= secondary <= INT32_MAX
            and 0 <= version <= VERSION_MAX
            and (size := len(payload)) <= self._payload_bytes_max
        ):
            self._records.append((primary, secondary, payload, version))
            self._bytes += size
        else:
            record = _coerced_record(primary, secondary, payload, version, self._payload_bytes_max)
            self._records.append(record)
            self._bytes += len(record[2] or b"")
        return len(self._records) >= self._records_max or self._bytes >= self._bytes_max

    def rows(self) -> Rows:
        """Return what was gathered; it stays until `clear`."""
        return rows_from_tuples(self._records)

    def clear(self) -> None:
        """Start anew."""
        self._records = []
        self._bytes = 0


def cut_points(sizes: npt.NDArray[np.int64], records_max: int, bytes_max: int) -> list[int]:
    """Return where rows of these sizes are cut so that no block is much above its target."""
    count = len(sizes)
    if count <= records_max and int(sizes.sum()) <= bytes_max:
        return [0, count]
    filled = np.cumsum(sizes)
    cuts = [0]
    while cuts[-1] < count:
        at = cuts[-1]
        before = int(filled[at - 1]) if at else 0
        full = int(np.searchsorted(filled, before + bytes_max))
        cuts.append(min(count, at + records_max, max(at, full) + 1))
    return cuts


def put_block(  # noqa: PLR0913 - a block's parts
    batch: Batch,
    rows: Rows,
    states: npt.NDArray[np.uint8] | None,
    addresses: npt.NDArray[np.int64],
    place: BlockPlace,
    *,
    previous_end: int,
    now_ms: int,
    options: StreamOptions,
) -> Zone:
    """Add one block and its zone to a batch."""
    data = encode_block(rows, states, addresses, place, now_ms, options.codec)
    late, ahead, expired = state_counts(states)
    zone = Zone(
        previous_end,
        int(addresses[0]),
        int(addresses[-1]),
        *primary_spans(rows.primary, states),
        now_ms,
        block_checksum(data),
        len(data),
        len(rows),
        late,
        ahead,
        expired,
        rows.payload.null_count,
        encode_secondaries(rows.secondary),
    )
    batch.put(log_key(zone.first), data, FAMILY_LOG)
    batch.put(zone_key(zone.first), encode_zone(zone))
    return zone
