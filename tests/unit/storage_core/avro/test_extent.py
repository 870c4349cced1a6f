"""What small bodies and small schemas must not be able to claim: memory, time, a traceback.

Each test runs in a process of its own with bounded memory and time, so that one that fails ends.
"""

import json
import resource
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from storage_core import InvalidRequestError
from storage_core.avro import AvroSchema, decode_batch

_MEMORY_MAX = 3 * 2**30
_WAIT_MAX_S = 60


def record(name, **fields):
    return {"type": "record", "name": name, "fields": [_field(*fault) for fault in fields.items()]}


def _field(name, kind):
    return {"name": name, "type": kind}


def array(items):
    return {"type": "array", "items": items}


def fixed(size, name="F"):
    return {"type": "fixed", "name": name, "size": size}


NOTHING = record("Nothing")
TREE = record("Node", left=["Node", "null"], right=["Node", "null"])
ENDLESS = record("Endless", left="Endless", right="Endless")


def decoded_apart(schema, body, count, columns=None):
    """Return how many of so many equal bodies are faults, found in a process of its own."""
    script = f"""
import pyarrow as pa
from storage_core.avro import AvroSchema, decode_batch
bodies = pa.array([{body!r}] * {count}, pa.binary())
print(len(decode_batch(bodies, AvroSchema.parse({json.dumps(schema)!r}), columns={columns}).faults))
"""

    def bounded():
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_MAX, _MEMORY_MAX))

    ran = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=_WAIT_MAX_S,
        preexec_fn=bounded,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-500:]
    return int(ran.stdout)


@pytest.mark.parametrize(
    ("of", "body", "count"),
    [
        (array(record("Outer", inner=NOTHING)), b"\x80\x80\x80\x01\x00", 2000),
        (array("null"), b"\x80\x04" * 256 + b"\0", 8192),
        (array(array("null")), b"\xd2\x02" + b"\x80\x04\0" * 169 + b"\0", 8192),
        (fixed(2**20), b"\x02", 8192),
    ],
    ids=["records of nothing", "blocks of nothing", "arrays of nothing", "large fixed"],
)
def test_small_bodies_claim_no_memory(of, body, count):
    assert decoded_apart(record("R", a=of), body, count) == count


def test_nulls_beside_a_large_fixed_take_no_memory():
    assert decoded_apart(record("R", a=["null", fixed(2**20)]), b"\0", 8192) == 0


@pytest.mark.parametrize("of", [TREE, ENDLESS], ids=["tree", "endless"])
def test_truncated_body_of_a_schema_that_holds_itself_ends(of):
    assert decoded_apart(record("R", a="int", t=of), b"\x02\x00", 3, ["a"]) == 3


def doubling(count):
    """Return a schema each of whose records holds the one before it twice."""
    fields = {"t0": record("T0")}
    for index in range(1, count):
        fields[f"t{index}"] = record(f"T{index}", a=f"T{index - 1}", b=f"T{index - 1}")
    return record("R", **fields)


def chain(count):
    """Return a schema each of whose records holds the one before it."""
    fields = {"t0": record("T0", q="int")}
    for index in range(1, count):
        fields[f"t{index}"] = record(f"T{index}", a=f"T{index - 1}")
    return record("R", **fields)


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (doubling(40), "types, each counted where it is used"),
        (chain(1000), "nested at most 64 deep"),
        (chain(70), "nested at most 64 deep"),
        (record("R", e={"type": "enum", "name": "E", "symbols": []}), "without symbols"),
        (record("R", u=[]), "without branches"),
        *[
            (record("R", f=fixed(size)), "size of fixed F")
            for size in (-1, 2**31, 2**64, True, 4.7, "4", None)
        ],
    ],
)
def test_schema_that_no_body_can_be_read_by_is_refused(schema, why):
    with pytest.raises(InvalidRequestError, match=why):
        AvroSchema.parse(json.dumps(schema))


def test_wide_fixed_is_shown_as_bytes_and_a_narrow_one_as_fixed():
    schema = AvroSchema.parse(json.dumps(record("R", a=fixed(256, "A"), b=fixed(257, "B"))))
    assert schema.arrow_schema().types == [pa.binary(256), pa.binary()]
    bodies = pa.array([bytes(range(256)) * 2 + b"!"], pa.binary())
    result = decode_batch(bodies, schema)
    assert not result.faults
    assert result.table.to_pylist() == [{"a": bytes(range(256)), "b": bytes(range(256)) + b"!"}]


BODIES = pa.array([b"\x02\x04", b"\x06\x08"], pa.binary())
LONG = AvroSchema.parse(json.dumps(record("R", c="long")))


@pytest.mark.parametrize(
    "starts",
    [
        -1,
        True,
        1.0,
        np.array([1]),
        np.array([1, 1, 1]),
        np.array([-1, 1]),
        np.array([1.0, 1.0]),
        np.array([True, True]),
        np.array([[1, 1]]),
    ],
)
def test_starts_that_are_none_are_refused(starts):
    with pytest.raises(InvalidRequestError, match="starts"):
        decode_batch(BODIES, LONG, starts=starts)


@pytest.mark.parametrize(
    "starts", [1, np.int64(1), np.array([1, 1], np.uint64), np.array([1, 1], np.uint8)]
)
def test_starts_are_integers_of_any_width(starts):
    assert decode_batch(BODIES, LONG, starts=starts).table.to_pylist() == [{"c": 2}, {"c": 4}]


@pytest.mark.parametrize("starts", [2**63 - 1, 2**70, np.array([2**63 - 1] * 2)])
def test_start_behind_the_end_is_a_fault(starts):
    faults = decode_batch(BODIES, LONG, starts=starts).faults
    assert [(fault.row, fault.reason) for fault in faults] == [
        (row, "the body is truncated") for row in range(2)
    ]
