"""Times of a stream's unit as Spark's timestamps, which count microseconds."""

from typing import Any, Final

import numpy as np
import pyarrow as pa

from storage_core import INT64_MAX, INT64_MIN, UNITS_PER_SECOND, Unit

TIMESTAMP_US: Final = pa.timestamp("us", tz="UTC")
_NS_A_US: Final = 1000

Array = Any
_untyped: Any = pa


def as_timestamps(times: Array, unit: Unit) -> Array:
    """Return times of a unit as Spark's timestamps; null where Spark cannot hold one."""
    values = times.fill_null(0).to_numpy() if times.null_count else times.to_numpy()
    if unit == "ns":
        counted = values // _NS_A_US
        held = None
    else:
        factor = 10**6 // UNITS_PER_SECOND[unit]
        least, most = -(-INT64_MIN // factor), INT64_MAX // factor
        held = None
        if len(values) and not (least <= values.min() and values.max() <= most):
            held = (values >= least) & (values <= most)
            values = np.where(held, values, 0)
        counted = values if factor == 1 else values * factor
    missing = times.is_null().to_numpy(zero_copy_only=False) if times.null_count else None
    if held is not None:
        missing = ~held if missing is None else missing | ~held
    return _untyped.array(counted, pa.int64(), mask=missing).view(TIMESTAMP_US)
