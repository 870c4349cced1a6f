"""Records written as JSON lines, for `shardlog produce --lines`.

    {"key": 17, "value": {"temperature": 21.5}, "timestamp": 1700000000000, "headers": {"a": "b"}}

    key         an integer (4 bytes, big-endian), a string (UTF-8) or null; not there: null
    value       a string (its UTF-8), null (a tombstone), or any other JSON (compact text)
    timestamp   milliseconds since the epoch; not there or null: the moment it is produced
    headers     names with strings or null

Blank lines are skipped. The first invalid line raises an error with its number.
"""

import json
from collections.abc import Iterator
from typing import Any, BinaryIO, Final, NamedTuple, NoReturn

from connectors.kafka import Headers
from storage_core import InvalidRequestError

LINE_BYTES_MAX: Final = 16 * 2**20
TIMESTAMP_MS_MAX: Final = 2**53

_FIELDS: Final = frozenset(("key", "value", "timestamp", "headers"))
_INT32_MAX: Final = 2**31 - 1


class Outgoing(NamedTuple):
    """A record to be produced."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None
    headers: Headers | None = None


def records_from(source: BinaryIO) -> Iterator[Outgoing]:
    """Yield the record of each line as it is read.

    Raises:
        InvalidRequestError: A line is invalid; the records before it were yielded.
    """
    number = 0
    while line := source.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(line) > LINE_BYTES_MAX:
            message = f"line {number}: longer than {LINE_BYTES_MAX} bytes"
            raise InvalidRequestError(message)
        if line.isspace():
            continue
        yield _parsed(line, number)


def _parsed(line: bytes, number: int) -> Outgoing:
    try:
        return _record(json.loads(line, parse_constant=_no_constant))
    except RecursionError as error:
        message = f"line {number}: nested too deeply"
        raise InvalidRequestError(message) from error
    except ValueError as error:
        message = f"line {number}: {error}"
        raise InvalidRequestError(message) from error


def _record(fields: object) -> Outgoing:
    if not isinstance(fields, dict):
        message = "not a JSON object"
        raise ValueError(message)  # noqa: TRY004 - what a line says is not a programmer's type
    if unknown := sorted(set(fields) - _FIELDS):
        message = f"unknown fields {', '.join(unknown)}; there are {', '.join(sorted(_FIELDS))}"
        raise ValueError(message)
    if "value" not in fields:
        message = "no value; a tombstone is null"
        raise ValueError(message)
    return Outgoing(
        _key(fields.get("key")),
        _value(fields["value"]),
        _timestamp_ms(fields.get("timestamp")),
        _headers(fields.get("headers")),
    )


def _key(key: object) -> bytes | None:
    if key is None:
        return None
    if isinstance(key, str):
        return key.encode()
    if type(key) is int and -_INT32_MAX - 1 <= key <= _INT32_MAX:
        return key.to_bytes(4, "big", signed=True)
    message = "key is a 32-bit signed integer, a string or null"
    raise ValueError(message)


def _value(value: object) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _timestamp_ms(timestamp: object) -> int | None:
    if timestamp is None or (type(timestamp) is int and 0 <= timestamp <= TIMESTAMP_MS_MAX):
        return timestamp
    message = "timestamp is a number of milliseconds since the epoch"
    raise ValueError(message)


def _headers(headers: Any) -> Headers | None:  # noqa: ANN401 - what JSON holds
    if headers is None:
        return None
    values = headers.values() if isinstance(headers, dict) else [0]
    if not all(value is None or isinstance(value, str) for value in values):
        message = "headers are an object of strings or nulls"
        raise ValueError(message)
    return [(name, None if value is None else value.encode()) for name, value in headers.items()]


def _no_constant(name: str) -> NoReturn:
    message = f"{name} is not JSON"
    raise ValueError(message)
