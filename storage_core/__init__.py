"""The shard log: append, commit, recover, read. Everything public is imported from here."""

from storage_core.draft import AppendReport
from storage_core.environment import Environment
from storage_core.errors import (
    ClosedError,
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    LostRangeError,
    RecordRejectedError,
    ShardLockedError,
    ShardlogError,
    ShardPoisonedError,
    UnavailableError,
    UnsupportedFormatError,
)
from storage_core.options import StreamOptions
from storage_core.position import Position, ShardPosition
from storage_core.read_request import ReadRequest, ShardReader
from storage_core.reader import StreamReader
from storage_core.record import Record
from storage_core.stream import Stream, StreamStats
from storage_core.transaction import Transaction
from storage_core.verify import Problem, VerifyReport

__all__ = [
    "AppendReport",
    "ClosedError",
    "CorruptionError",
    "Environment",
    "ForeignDataError",
    "InvalidRequestError",
    "LostRangeError",
    "Position",
    "Problem",
    "ReadRequest",
    "Record",
    "RecordRejectedError",
    "ShardLockedError",
    "ShardPoisonedError",
    "ShardPosition",
    "ShardReader",
    "ShardlogError",
    "Stream",
    "StreamOptions",
    "StreamReader",
    "StreamStats",
    "Transaction",
    "UnavailableError",
    "UnsupportedFormatError",
    "VerifyReport",
]
