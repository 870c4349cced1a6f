"""Read requests: what has no meaning is refused by name."""

import pytest

from storage_core import InvalidRequestError, ReadRequest


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"start": 2, "end": 1}, "start 2 is above end 1"),
        ({"limit": -1}, "^limit -1 is negative$"),
        ({"limit": 5}, "^limit goes with order primary only, not with arrival$"),
        ({"limit": 5, "order": "newest"}, "^limit goes with order primary only, not with newest$"),
        ({"start": -(2**63) - 1}, "64-bit"),
        ({"end": 2**63}, "64-bit"),
        ({"ids": (1, -(2**31) - 1)}, "ids are 32-bit"),
        ({"versions": (2**16,)}, "versions are 16-bit"),
        ({"start_address": -1}, "must not be negative"),
        ({"start_address": 2, "end_address": 1}, "start address 2 is above end 1"),
        ({"columns": ("payload", "colour")}, "unknown columns colour"),
        ({"columns": (1,)}, "columns are names"),
        ({"order": "sideways"}, "order 'sideways'"),
        ({"start": 0.5}, "integers"),
        ({"ids": ("1",)}, "integers"),
        ({"start_address": 1.0}, "integers"),
        ({"bytes_max": -1}, "^bytes_max -1 is negative$"),
        ({"keys": ("text",)}, "keys are bytes, or None"),
        ({"latest_by": "address", "order": "primary"}, "latest_by 'address'"),
        ({"latest_by": "key"}, "latest_by goes with order primary"),
        ({"tombstones": 1}, "tombstones 1"),
    ],
)
def test_request_without_meaning_is_refused_by_name(fields, named):
    with pytest.raises(InvalidRequestError, match=named):
        ReadRequest(**{"shard": 0, **fields})
