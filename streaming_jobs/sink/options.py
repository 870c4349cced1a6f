"""The options of the sink, read on the driver before a job starts.

Options that make a stream (`unit`, `shards`, `retention`, `jitter`, `keyMode`) are for the moment
it is not there yet; those that are fixed from then on must agree with a stream that is.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, Literal, get_args

from storage_core import INT64_MAX, InvalidRequestError, StreamOptions, Unit
from streaming_jobs.common.option_values import (
    SOURCE_OPTIONS,
    OptionValues,
)
from streaming_jobs.common.schemas import REGISTRY_OPTIONS, RegistryAccess
from streaming_jobs.sink.checkpoint import local_directory

_SHARED: Final = (
    *(
        "path",
        "server",
        "stream",
        "topic",
        "unit",
        "shards",
        "jitter",
        "retention",
        "keyMode",
        "lockWait",
    ),
    *("onChangedBatch", "valueFormat", "writerSchema", *REGISTRY_OPTIONS),
)
_OF_A_BATCH: Final = ("txnAppId", "txnVersion")
_OF_A_QUERY: Final = ("checkpointLocation", "queryName", "resetQuery")
# Of Kafka's sink: headers are written where the rows have them.
IDLE: Final = ("includeHeaders",)
# Of the view that rows are inserted into.
_OF_A_VIEW: Final = ("columns",)
_TAKEN: Final = (*IDLE, *_OF_A_VIEW)
_OF_READING: Final = {name.lower(): "it is for reading; leave it out" for name in SOURCE_OPTIONS}
OnChanged = Literal["fail", "skip"]
KeyMode = Literal["none", "dictionary"]
ValueFormat = Literal["raw", "avro"]
# Spark's names of what a stream is made with, where they differ.
OPTION_NAMES: Final = {"key_mode": "keyMode"}
LOCK_WAIT_DEFAULT_S: Final = 30
LOCK_WAIT_MAX_S: Final = 3600


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """What a writer was asked for.

    Attributes:
        path: The root, or the addresses of servers over it.
        stream: The stream.
        creation: How the stream is made if it is not there.
        fixed: Of these, the ones that were given and never change.
        lock_wait_s: How long a commit waits for another writer of the shards.
        app: A batch write's `txnAppId` and `txnVersion`.
        query_names: Names by which a stream's query is known again.
        resets_query: Whether those names may pass to a new query.
        on_changed: What to do with a batch that comes again with other rows.
        checkpoint: Where the query's checkpoint is, if it is on this machine.
        columns: Those of the view that is inserted into, if it has its own.
        writer_schema: What names the schema that fields are written by; None for whole values.
        registry: How its registry is reached.
    """

    path: str
    stream: str
    creation: StreamOptions
    fixed: Mapping[str, object]
    lock_wait_s: float
    app: tuple[str, int] | None = None
    query_names: Mapping[str, str] = field(default_factory=dict)
    resets_query: bool = False
    on_changed: OnChanged = "fail"
    checkpoint: Path | None = None
    columns: tuple[str, ...] | None = None
    writer_schema: str | None = None
    registry: RegistryAccess | None = None


def parse_batch_options(options: Mapping[str, str]) -> SinkOptions:
    """Return the options of a batch write."""
    values = OptionValues(options, (*_SHARED, *_OF_A_BATCH, *_TAKEN), _OF_READING)
    name, version = values.text("txnAppId"), values.whole("txnVersion", 0)
    if (name is None) != (version is None):
        message = "txnAppId and txnVersion go together: the one says nothing without the other"
        raise InvalidRequestError(message)
    app = None if name is None or version is None else (name, version)
    return SinkOptions(**_shared(values), app=app)


def parse_stream_options(options: Mapping[str, str]) -> SinkOptions:
    """Return the options of a streaming write."""
    option_names = (*_SHARED, *_OF_A_QUERY, *_OF_A_BATCH, *_TAKEN)
    values = OptionValues(options, option_names, _OF_READING)
    if values.has("txnAppId") or values.has("txnVersion"):
        message = "txnAppId and txnVersion are for batch writes; a query numbers its batches itself"
        raise InvalidRequestError(message)
    checkpoint, name = values.text("checkpointLocation"), values.text("queryName")
    names = {}
    if checkpoint is not None:
        # By the spelling too: a link that was pointed elsewhere leads to another checkpoint.
        for spelt in _spellings(checkpoint):
            names[f"checkpoint:{spelt}"] = f"checkpoint {checkpoint!r}"
    if name is not None:
        names[f"name:{name}"] = f"query name {name!r}"
    resets = values.truth("resetQuery", default=False)
    place = None if checkpoint is None else local_directory(checkpoint)
    return SinkOptions(**_shared(values), query_names=names, resets_query=resets, checkpoint=place)


def _shared(values: OptionValues) -> dict[str, Any]:
    creation, fixed = _creation(values)
    wait_s = values.whole("lockWait", 0, LOCK_WAIT_MAX_S)
    path, stream = values.place("topic")
    return {
        "path": path,
        "stream": stream,
        "creation": creation,
        "fixed": fixed,
        "lock_wait_s": LOCK_WAIT_DEFAULT_S if wait_s is None else wait_s,
        "columns": values.names("columns"),
        "on_changed": values.choice("onChangedBatch", get_args(OnChanged), "fail"),
        "writer_schema": _writer_schema(values),
        "registry": RegistryAccess.of(values),
    }


def _writer_schema(values: OptionValues) -> str | None:
    name = values.text("writerSchema")
    is_avro = values.choice("valueFormat", get_args(ValueFormat), "raw") == "avro"
    if is_avro and name is None:
        message = (
            "valueFormat=avro writes fields by a schema; option writerSchema names it: inline "
            "JSON, a file <name>.avsc, or SUBJECT --version N"
        )
        raise InvalidRequestError(message)
    if name is not None and not is_avro:
        message = "writerSchema is for valueFormat=avro; without it, rows bring their values whole"
        raise InvalidRequestError(message)
    return name


def _creation(values: OptionValues) -> tuple[StreamOptions, dict[str, object]]:
    creation: dict[str, Any] = {}
    for name in ("shards", "jitter"):
        number = values.whole(name, 0, INT64_MAX)
        if number is not None:
            creation[name] = number
    if values.has("unit"):
        creation["unit"] = values.choice("unit", get_args(Unit), "ms")
    if values.has("keyMode"):
        creation["key_mode"] = values.choice("keyMode", get_args(KeyMode), "none")
    retention = values.span("retention", "90s, 15m, 12h, 7d, 4w", timedelta(seconds=1))
    return StreamOptions(**creation, retention=retention), creation


def _spellings(location: str) -> tuple[str, ...]:
    """Return a checkpoint's place as it is spelt, from the root on, and where it really lies."""
    place = local_directory(location)
    if place is None:
        return (location.rstrip("/"),)
    return os.path.abspath(place), os.path.realpath(place)  # noqa: PTH100 - a link must stay
