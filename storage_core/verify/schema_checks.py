"""Checks of a schema dictionary: rows against their entries, and all entries.

Every number that a row has was given, and every number that was given has an entry that can be
read, whose text has its fingerprint and whose identity leads back to it. There are no others.
"""

from collections.abc import Callable
from typing import Any

from storage_core.errors import CorruptionError, InvalidRequestError
from storage_core.format.block import Block
from storage_core.format.keys import PREFIX_SCHEMA, prefix_end
from storage_core.format.schema_entry import (
    SchemaEntry,
    decode_schema,
    decode_schema_key,
    decode_schema_number,
    schema_key,
    schema_number_key,
)
from storage_core.format.shard_state import KEY_SCHEMAS
from storage_core.platform.arrow import distinct
from storage_core.read.columns import block_columns
from storage_core.read.snapshot import ShardSnapshot
from storage_core.verify.findings import Findings

# The fingerprint of a schema's text, longer than who keeps a short one has it; None where it is no
# schema.
FingerprintOf = Callable[[str], bytes | None]


def fingerprint_of(text: str) -> bytes | None:
    """Return what tells a schema's text from others, None where it is none."""
    # Only who verifies needs it, and it takes 70 ms.
    from storage_core.avro import AvroSchema  # noqa: PLC0415

    try:
        return AvroSchema.stored(text).identity
    except InvalidRequestError:
        return None


class SchemaCheck:
    """Compares one shard's dictionary of schemas with its rows."""

    def __init__(
        self, view: ShardSnapshot, findings: Findings, fingerprint_of: FingerprintOf | None
    ) -> None:
        """Look at the entries of a view; without `fingerprint_of` not at what texts say."""
        self._view = view
        self._findings = findings
        self._fingerprint_of = fingerprint_of

    def compare(self, block: Block) -> None:
        """Look at the numbers of a block's rows."""
        column = block_columns(block, self._view.shard, ("schema",), None).column(0)
        if column.null_count == len(column):
            return
        values, codes = distinct(column)
        assigned = self._view.state.schemas
        numbers: list[Any] = values.to_pylist()
        for code, number in enumerate(numbers):
            if not 0 <= number < assigned:
                address = int(block.addresses[int((codes == code).argmax())])
                message = f"a row has schema number {number}, but only {assigned} were assigned"
                self._findings.add("schema", message, address, address + 1)

    def finish(self) -> None:
        """Look at all entries."""
        assigned, entries = self._view.state.schemas, 0
        for key, value in self._view.meta_items(PREFIX_SCHEMA, prefix_end(PREFIX_SCHEMA)):
            number = decode_schema_key(key)
            if number is None:
                self._compare_number(key, value)
                continue
            if number >= assigned:
                message = f"schema number {number} has an entry, but only {assigned} were assigned"
                self._findings.add("schema", message, key=key)
                continue
            entries += 1
            self._compare_entry(key, value, number)
        if entries != assigned:
            message = f"{entries} schemas have an entry, but {assigned} were assigned"
            self._findings.add("schema", message, key=KEY_SCHEMAS)

    def _compare_entry(self, key: bytes, value: bytes, number: int) -> None:
        try:
            entry = decode_schema(value)
        except CorruptionError as error:
            self._findings.add("schema", f"schema number {number}: {error.message}", key=key)
            return
        back = self._view.value_at(schema_number_key(*entry.identity))
        if back is None or decode_schema_number(back) != number:
            message = f"schema {entry.registry_id} does not map back to its number {number}"
            self._findings.add("schema", message, key=schema_number_key(*entry.identity))
        if self._fingerprint_of is not None:
            self._compare_text(key, entry, self._fingerprint_of(entry.text))

    def _compare_text(self, key: bytes, entry: SchemaEntry, fingerprint: bytes | None) -> None:
        if fingerprint is None:
            message = f"the text of schema {entry.registry_id} is not a schema"
            self._findings.add("schema", message, key=key)
        elif not fingerprint.startswith(entry.fingerprint):
            message = (
                f"the text of schema {entry.registry_id} has fingerprint {fingerprint.hex()}, "
                f"expected {entry.fingerprint.hex()}"
            )
            self._findings.add("schema", message, key=key)

    def _compare_number(self, key: bytes, value: bytes) -> None:
        """Look at an identity's number: its entry has that identity."""
        number = decode_schema_number(value)
        entry = None if number is None or number < 0 else self._view.value_at(schema_key(number))
        try:
            schema = None if entry is None else decode_schema(entry)
        except CorruptionError:
            # The check of its entry reports it.
            return
        if schema is None or schema_number_key(*schema.identity) != key:
            message = "a schema's identity maps to no entry of its own"
            self._findings.add("schema", message, key=key)
