"""Values written as Avro bodies, one at a time: for who makes up a few, not for a pipeline.

fastavro writes them. Values are as JSON has them: records are objects, enums texts, moments
numbers in the unit of their type; of a union the first branch is taken that fits. Bytes and
decimals have no form in JSON here.
"""

import io
import json
from typing import Any

from fastavro import schemaless_writer
from fastavro.schema import parse_schema
from fastavro.validation import ValidationError, validate

from storage_core.avro.schema import AvroSchema
from storage_core.avro.schema_text import dotted, stands_alone
from storage_core.errors import InvalidRequestError


class BodyEncoder:
    """Writes bodies by one schema."""

    def __init__(self, schema: AvroSchema) -> None:
        """Write by a schema."""
        self._name = schema.full_name
        self._parsed = parse_schema(dotted(stands_alone(schema.text, ())), _write_hint=False)

    def encode(self, value: object) -> bytes:
        """Return a value's body.

        Raises:
            InvalidRequestError: It does not fit the schema.
        """
        body = io.BytesIO()
        given: Any = value
        try:
            # NOTE: the writer alone (1.13) writes an int that is too large as a long.
            validate(given, self._parsed)
            # Strictly: a misspelt name would else be a default, and its value gone.
            schemaless_writer(body, self._parsed, given, strict_allow_default=True)
        except ValidationError as error:
            raise self._refused(_why(error)) from error
        except (ValueError, TypeError, AttributeError, KeyError, OverflowError) as error:
            raise self._refused(str(error)) from error
        return body.getvalue()

    def _refused(self, why: str) -> InvalidRequestError:
        return InvalidRequestError(f"the value does not fit schema {self._name}: {why}")


def _why(error: ValidationError) -> str:
    """Say which field has what instead of what; of the values of a union each branch."""
    first: Any = error.errors[0]
    kinds = " or ".join(_kind(one.schema) for one in error.errors)
    return f"{first.field.lstrip('.') or 'it'} is {json.dumps(first.datum)[:100]}, and no {kinds}"


def _kind(schema: Any) -> str:  # noqa: ANN401 - a type as fastavro has it
    name = schema.get("name", schema["type"]) if isinstance(schema, dict) else schema
    return str(name).lstrip(".")
