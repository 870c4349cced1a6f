"""Errors as documents: {"error": {"kind", "message", "stream", "shard", "path", "start", "end"}}.

`kind` is the name of the error's class, or of the nearest one above it that is in the table; a kind
that is not known there becomes a `ShardlogError`. What is None is left out.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from storage_core.errors import (
    BrokerUnavailableError,
    ClientFailedError,
    ClosedError,
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    LostRangeError,
    ShardLockedError,
    ShardlogError,
    ShardPoisonedError,
    UnavailableError,
    UnsupportedFormatError,
)

_STATUS: Final[Mapping[type[ShardlogError], HTTPStatus]] = {
    InvalidRequestError: HTTPStatus.BAD_REQUEST,
    ClosedError: HTTPStatus.SERVICE_UNAVAILABLE,
    UnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
    ShardLockedError: HTTPStatus.SERVICE_UNAVAILABLE,
    BrokerUnavailableError: HTTPStatus.SERVICE_UNAVAILABLE,
    ForeignDataError: HTTPStatus.CONFLICT,
    CorruptionError: HTTPStatus.INTERNAL_SERVER_ERROR,
    LostRangeError: HTTPStatus.GONE,
    UnsupportedFormatError: HTTPStatus.NOT_IMPLEMENTED,
    ShardPoisonedError: HTTPStatus.INTERNAL_SERVER_ERROR,
    ClientFailedError: HTTPStatus.INTERNAL_SERVER_ERROR,
    ShardlogError: HTTPStatus.INTERNAL_SERVER_ERROR,
}
_BY_NAME: Final = {kind.__name__: kind for kind in _STATUS}
_MESSAGE_MAX: Final = 8192


def encode_error(error: ShardlogError) -> dict[str, Any]:
    """Return the document of an error."""
    place = {
        "stream": error.stream,
        "shard": error.shard,
        "path": None if error.path is None else str(error.path),
        "start": error.start,
        "end": error.end,
    }
    known_place = {name: value for name, value in place.items() if value is not None}
    kind = _kind_of(error).__name__
    return {"error": {"kind": kind, "message": error.message[:_MESSAGE_MAX], **known_place}}


def decode_error(document: object) -> ShardlogError | None:
    """Return what `encode_error` was given; None where it made no such document."""
    fields = document.get("error") if isinstance(document, dict) else None
    if not isinstance(fields, dict) or not isinstance(fields.get("message"), str):
        return None
    path = fields.get("path")
    return _BY_NAME.get(str(fields.get("kind")), ShardlogError)(
        fields["message"],
        stream=_typed(fields.get("stream"), str),
        shard=_typed(fields.get("shard"), int),
        path=Path(path) if isinstance(path, str) else None,
        start=_typed(fields.get("start"), int),
        end=_typed(fields.get("end"), int),
    )


def error_from_answer(status: int, body: bytes, server: str) -> ShardlogError:
    """Return the error that an answer other than 200 is, whoever gave it.

    Args:
        status: The answer's.
        body: Its body.
        server: The address, for who else may have answered, as a proxy does.
    """
    try:
        error = decode_error(json.loads(body))
    except (ValueError, RecursionError):
        error = None
    if error is not None:
        return error
    message = f"{server} answered {status} without saying why; it may be no shardlog server"
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS:
        return UnavailableError(message)
    return InvalidRequestError(message)


def status_of(error: ShardlogError) -> HTTPStatus:
    """Return the status of the answer that an error is."""
    return _STATUS[_kind_of(error)]


def _kind_of(error: ShardlogError) -> type[ShardlogError]:
    return next(kind for kind in type(error).__mro__ if kind in _STATUS)


def _typed(value: object, kind: type) -> Any:  # noqa: ANN401 - the type is a parameter
    return value if type(value) is kind else None
