"""The shard log: append, commit, recover, read. Everything public is imported from here."""

from storage_core.clock import Clock, SystemClock
from storage_core.contents import Contents
from storage_core.dropped_streams import Drop, drop_stream, dropped_streams
from storage_core.entry import AppendReport
from storage_core.environment import Environment
from storage_core.errors import (
    BrokerUnavailableError,
    ClientFailedError,
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
from storage_core.findings import Problem
from storage_core.keys import INT64_MAX, INT64_MIN
from storage_core.open_files import files_needed
from storage_core.options import StreamOptions
from storage_core.origin import StreamOrigin, is_stream_name
from storage_core.position import Position, ShardPosition
from storage_core.read_request import ReadRequest, ShardReader
from storage_core.reader import StreamReader
from storage_core.record import HEADERS_TYPE, Record, State
from storage_core.root_file import list_streams, root_id
from storage_core.series import TransactionId
from storage_core.staged_rows import StagedPart, StagingWriter
from storage_core.staging_area import StagingArea
from storage_core.stream import Stream
from storage_core.stream_description import StreamDescription, describe_stream
from storage_core.stream_stats import StreamStats
from storage_core.transaction import Transaction
from storage_core.verify import VerifyReport
from storage_core.windows import UNITS_PER_SECOND, Unit

__all__ = [
    "HEADERS_TYPE",
    "INT64_MAX",
    "INT64_MIN",
    "UNITS_PER_SECOND",
    "AppendReport",
    "BrokerUnavailableError",
    "ClientFailedError",
    "Clock",
    "ClosedError",
    "Contents",
    "CorruptionError",
    "Drop",
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
    "StagedPart",
    "StagingArea",
    "StagingWriter",
    "State",
    "Stream",
    "StreamDescription",
    "StreamOptions",
    "StreamOrigin",
    "StreamReader",
    "StreamStats",
    "SystemClock",
    "Transaction",
    "TransactionId",
    "UnavailableError",
    "Unit",
    "UnsupportedFormatError",
    "VerifyReport",
    "describe_stream",
    "drop_stream",
    "dropped_streams",
    "files_needed",
    "is_stream_name",
    "list_streams",
    "root_id",
]
