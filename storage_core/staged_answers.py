"""What a stream answers to the calls of the protocol that write (protocol/calls.py).

The one way from a call's name and values to the staging area; a server adds bytes, bounds and who
may ask. Each call may come again, since its answer may be lost: rows that were staged twice are
files that nobody publishes, and a transaction that is made is made once.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from io import IOBase
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from storage_core.catalog.stream_meta import decode_options, unknown_options
from storage_core.errors import InvalidRequestError
from storage_core.format.contents import Contents, decode_contents
from storage_core.landing import OpenWriters, land_noted
from storage_core.protocol.calls import Call
from storage_core.protocol.plain_rows import PlainMessages, refuse_shared_values
from storage_core.protocol.row_stream import RowStream
from storage_core.staging import StagingArea
from storage_core.stream import Stream
from storage_core.transactions.documents import (
    Decided,
    StagingFacts,
    encode_decided,
    encode_facts,
    encode_staged,
)
from storage_core.transactions.series import TransactionId
from storage_core.transactions.staged_batch import NotedBatch, Waiting
from storage_core.transactions.staged_rows import rows_of, schemas_of_part

_NUMBERS_MAX: Final = 5


def create(root: Path, name: str, options: str) -> None:
    """Make a stream.

    Raises:
        InvalidRequestError: The name is bad or taken, or an option is.
    """
    try:
        document = json.loads(options)
    except (ValueError, RecursionError) as error:
        message = f"options of a stream are a JSON object of its options: {error}"
        raise InvalidRequestError(message) from error
    if not isinstance(document, dict):
        message = f"options of a stream are a JSON object of its options, not {options[:40]}"
        raise InvalidRequestError(message)
    try:
        unknown = unknown_options(document)
        chosen = None if unknown else decode_options(document)
    except InvalidRequestError:
        raise
    except (TypeError, ValueError, AttributeError, OverflowError) as error:
        message = f"options of a stream are a JSON object of its options: {error}"
        raise InvalidRequestError(message) from error
    if chosen is None:
        message = f"there are no options {', '.join(unknown)} of a stream here"
        raise InvalidRequestError(message)
    Stream.create(root, name, chosen).close()


def staged_result_of(area: StagingArea, call: Call, values: Mapping[str, Any]) -> object:
    """Return what a call returns that takes no rows, and waits for nobody.

    Raises:
        ShardlogError: The area's.
    """
    return _RESULTS[call.name](area, values)


def stage(area: StagingArea, values: Mapping[str, Any], source: IOBase) -> tuple[object, int]:
    """Stage the rows of a stream as an attempt, durably; return what it is, and how many.

    Args:
        area: The stream's staging area.
        values: What names the transaction.
        source: The rows. It raises an error of its own where it has not all that was sent.

    Raises:
        InvalidRequestError: The rows do not fit, are none, or end early.
        UnavailableError: The disk takes no more; nothing is left.
    """
    transaction = _transaction_of(values)
    writer = area.writer(transaction)
    try:
        try:
            rows = RowStream(PlainMessages(source), "the client", is_received=True)
            refuse_shared_values(rows.schema)
            schemas = _schemas_of(rows.schema)
            for batch in rows:
                # IMPORTANT: what others send may point anywhere; nothing is read of it before.
                batch.validate(full=True)
                writer.write(batch.replace_schema_metadata(None), schemas=schemas)
        except pa.ArrowException as error:
            message = f"the rows cannot be read: {error}"
            raise InvalidRequestError(message) from error
        parts = writer.finish()
        area.note(transaction, parts)
    except BaseException:
        writer.abandon()
        raise
    return encode_staged(parts), rows_of(parts)


def land(area: StagingArea, writers: OpenWriters, values: Mapping[str, Any]) -> int:
    """Make what was staged the transaction; return how many rows are late for its size.

    Raises:
        InvalidRequestError: The parts are none, or have other rows than the contents.
        ShardlogError: As `landing.land`.
    """
    contents = values.get("contents")
    parts = _parts_of(values.get("parts", ()))
    batch = NotedBatch(
        _transaction_of(values),
        parts,
        None if contents is None else _contents_of(contents),
    )
    return land_noted(area, writers, batch, Waiting(values["wait"], values.get("purpose", "")))


def transaction_named(values: Mapping[str, Any]) -> str:
    """Return the name of the transaction that values name."""
    return _transaction_of(values).name


def _transaction_of(values: Mapping[str, Any]) -> TransactionId:
    return TransactionId(values["series"], values.get("number"))


def _parts_of(texts: Iterable[str]) -> tuple[tuple[int, str], ...]:
    parts = tuple(map(_part_of, texts))
    if len(set(parts)) < len(parts):
        message = "parts: the same is named twice, and its rows would be there twice"
        raise InvalidRequestError(message)
    return parts


def _part_of(text: str) -> tuple[int, str]:
    shard, _, attempt = text.partition(":")
    if not (shard.isascii() and shard.isdecimal()) or len(shard) > _NUMBERS_MAX:
        message = f"parts: {text[:40]!r} is not <shard>:<attempt>"
        raise InvalidRequestError(message)
    return int(shard), attempt


def _contents_of(text: str) -> Contents:
    rows, _, digest = text.partition(":")
    try:
        return decode_contents([int(rows), digest])
    except ValueError as error:
        message = f"contents: {text[:60]!r} is not <rows>:<digest>"
        raise InvalidRequestError(message) from error


def _schemas_of(schema: pa.Schema) -> Any:  # noqa: ANN401 - as `schemas_of_part`
    try:
        return schemas_of_part(schema)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        message = f"the schemas of the rows cannot be read: {error}"
        raise InvalidRequestError(message) from error


def _staging(area: StagingArea, _: Mapping[str, Any]) -> object:
    return encode_facts(StagingFacts(area.incarnation, area.options, area.origin))


def _decided(area: StagingArea, values: Mapping[str, Any]) -> object:
    transaction = _transaction_of(values)
    # In this order: what is decided between the two has contents all the same.
    is_decided = area.is_decided(transaction)
    contents, mark = area.contents(transaction), area.mark(transaction.series)
    return encode_decided(Decided(is_decided, contents, mark))


def _claim(area: StagingArea, values: Mapping[str, Any]) -> object:
    return area.claim(values["name"], values["owner"], takes_over=values.get("takes_over", False))


def _collect(area: StagingArea, values: Mapping[str, Any]) -> object:
    return area.collect(_transaction_of(values), _parts_of(values["parts"]))


def _discard(area: StagingArea, values: Mapping[str, Any]) -> object:
    area.discard_attempts(_transaction_of(values), values["attempts"])
    return None


_RESULTS: Final[Mapping[str, Callable[[StagingArea, Mapping[str, Any]], object]]] = {
    "staging": _staging,
    "decided": _decided,
    "claim": _claim,
    "collect": _collect,
    "discard": _discard,
}
