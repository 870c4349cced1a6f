"""JSON values encoded as Avro bodies, one at a time, by fastavro: for a few values by hand.

Records are objects, enums strings, times numbers in the unit of their type; of a union the first
branch that fits is taken. Bytes and decimals have no JSON form here.
"""

import io
import json
from typing import Any

from fastavro import schemaless_writer
from fastavro.schema import parse_schema
from fastavro.validation import ValidationError, validate

from storage_core.avro.schema import AvroSchema
from storage_core.avro.schema_text import dotted, inline_references
from storage_core.errors import InvalidRequestError


class JsonEncoder:
    """Encodes values by one schema."""

    def __init__(self, schema: AvroSchema) -> None:
        """Prepare a schema."""
        self._name = schema.full_name
        self._parsed = parse_schema(dotted(inline_references(schema.text, ())), _write_hint=False)

    def encode(self, value: object) -> bytes:
        """Return the body of a value.

        Raises:
            InvalidRequestError: It does not fit the schema.
        """
        body = io.BytesIO()
        document: Any = value
        try:
            # NOTE: the writer alone (1.13) encodes an int out of range as a long.
            validate(document, self._parsed)
            # Strict: else a misspelt name would be its default, and the value lost.
            schemaless_writer(body, self._parsed, document, strict_allow_default=True)
        except ValidationError as error:
            raise self._refused(_why(error)) from error
        except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
            raise self._refused(str(error)) from error
        return body.getvalue()

    def _refused(self, why: str) -> InvalidRequestError:
        return InvalidRequestError(f"the value does not fit schema {self._name}: {why}")


def _why(error: ValidationError) -> str:
    """Return the field, its value and the expected types; of a union all branches."""
    first: Any = error.errors[0]
    kinds = " or ".join(_kind(branch.schema) for branch in error.errors)
    return f"{first.field.lstrip('.') or 'it'} is {json.dumps(first.datum)[:100]}, not {kinds}"


def _kind(schema: Any) -> str:  # noqa: ANN401 - a type as fastavro has it
    name = schema.get("name", schema["type"]) if isinstance(schema, dict) else schema
    return str(name).lstrip(".")
