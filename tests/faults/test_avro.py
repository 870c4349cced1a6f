"""Goal: whatever a body holds, its fields are what the schema says, or it is named as corrupt.

Method: random schemas of every type, nested; bodies of them, three of ten harmed; all or some of
the columns asked for. Each row must be what a reader in plain Python makes of it, each corrupt one
a fault, and sound ones what fastavro reads. SHARDLOG_FAULT_AVRO says how many schemas.
"""

from tests.thin import rounds
from tests.unit.storage_core.avro.differences import check_against_plain_python

SCHEMAS = rounds("SHARDLOG_FAULT_AVRO", few=100, many=300)
FIRST_SEED = 1_000


def test_rows_are_what_plain_python_reads_and_corrupt_ones_are_named():
    corrupt = sum(
        check_against_plain_python(seed) for seed in range(FIRST_SEED, FIRST_SEED + SCHEMAS)
    )
    assert corrupt > SCHEMAS
