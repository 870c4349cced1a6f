"""Bodies of a random schema, some of them harmed, decoded by the product and in plain Python."""

import io
import json
from random import Random

import fastavro
import pyarrow as pa

from storage_core.avro import AvroSchema, decode_batch
from tests.unit.storage_core.avro.plain_avro import (
    CorruptError,
    decoded_value,
    flat,
    harmed,
    random_record,
    random_value,
    read,
    written,
)


def check_against_plain_python(seed: int) -> int:
    """Decode bodies of one random schema; return how many of them were corrupt.

    Raises:
        AssertionError: A row is not what plain Python reads, a corrupt one is not named, or a sound
            one is not what fastavro reads.
    """
    chance = Random(seed)
    schema = random_record(chance)
    values = [random_value(chance, schema) for _ in range(chance.choice([1, 3, 30, 30, 100]))]
    sound = [written(schema, value, chance) for value in values]
    parsed = fastavro.parse_schema(schema)
    for body, value in zip(sound[:3], values, strict=False):
        assert fastavro.schemaless_reader(io.BytesIO(body), parsed) == flat(schema, value)
    bodies = [harmed(body, chance) if chance.random() < 0.3 else body for body in sound]
    names = [each["name"] for each in schema["fields"]]
    some = chance.sample(names, chance.randint(1, len(names)))
    columns = chance.choice([None, some])
    result = decode_batch(
        pa.array(bodies, pa.binary()), AvroSchema.parse(json.dumps(schema)), columns=columns
    )
    reasons = {fault.row: fault.reason for fault in result.faults}
    for row, (body, got) in enumerate(zip(bodies, result.table.to_pylist(), strict=True)):
        label = f"seed {seed}, row {row}, {reasons.get(row)}"
        try:
            expected = decoded_value(schema, read(schema, body))
        except CorruptError:
            # Of what is passed over nobody looks whether it is UTF-8.
            assert row in reasons or columns is not None, label
            continue
        wanted = {name: expected[name] for name in columns or names}
        # By text: what is no number is not equal to itself.
        assert row not in reasons, label
        assert repr(got) == repr(wanted), label
    return len(reasons)
