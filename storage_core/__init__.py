"""The shard log: append, commit, recover, read. Everything public is imported from here.

A name is loaded when it is first asked for (platform/lazy_exports.py).
"""

from typing import TYPE_CHECKING

from storage_core.platform.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from storage_core.catalog.archived_shard import ArchivedShard
    from storage_core.catalog.archived_shards import (
        archived_lineages,
        archived_shard_directory,
        archived_shards,
        remove_archived_shards,
    )
    from storage_core.catalog.dropped_streams import Drop, drop_stream, dropped_streams
    from storage_core.catalog.index_options import IndexOptions
    from storage_core.catalog.options import StreamOptions
    from storage_core.catalog.origin import RETRY_SHARDS_FROM, StreamOrigin, is_stream_name
    from storage_core.catalog.owners import ShardOwner, ShardProgress, shard_owners, shard_progress
    from storage_core.catalog.position import Position, ShardPosition
    from storage_core.catalog.root_file import share_with_root
    from storage_core.catalog.stream_file import StreamDescription, describe_stream
    from storage_core.engine.environment import Environment
    from storage_core.engine.open_files import files_needed
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
    from storage_core.format.contents import Contents
    from storage_core.format.counters import StreamStats
    from storage_core.format.keys import INT64_MAX, INT64_MIN, KEY_BYTES_MAX
    from storage_core.format.part_entry import PartEntry
    from storage_core.format.record import Record, State
    from storage_core.format.row_columns import HEADERS_TYPE
    from storage_core.format.schema_entry import SchemaEntry
    from storage_core.format.window import UNITS_PER_SECOND, Unit
    from storage_core.ids.index.worker import IndexWorker
    from storage_core.parts.snapshot import Part
    from storage_core.platform.clock import Clock, SystemClock
    from storage_core.platform.file_lock import DirectoryLock
    from storage_core.read.request import ReadRequest
    from storage_core.read.shard_reader import ShardReader
    from storage_core.reader import StreamReader
    from storage_core.remote.options import ServerOptions
    from storage_core.retention.expiry_report import ExpiryReport, ShardExpiry
    from storage_core.roots import list_streams, root_id
    from storage_core.staging import StagingArea
    from storage_core.stream import Stream
    from storage_core.tiering.part_builder import PartBuilder
    from storage_core.tiering.report import ShardTiering, TieringReport, TieringStep
    from storage_core.transactions.series import TransactionId
    from storage_core.transactions.staged_rows import StagedRows, StagingWriter
    from storage_core.transactions.transaction import Transaction
    from storage_core.verify.findings import Problem
    from storage_core.verify.verify import VerifyReport
    from storage_core.write.entry import AppendReport
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "catalog.archived_shards": (
                "archived_lineages",
                "archived_shard_directory",
                "archived_shards",
                "remove_archived_shards",
            ),
            "catalog.archived_shard": ("ArchivedShard",),
            "catalog.dropped_streams": ("Drop", "drop_stream", "dropped_streams"),
            "catalog.index_options": ("IndexOptions",),
            "catalog.options": ("StreamOptions",),
            "catalog.origin": ("RETRY_SHARDS_FROM", "StreamOrigin", "is_stream_name"),
            "catalog.owners": ("ShardOwner", "ShardProgress", "shard_owners", "shard_progress"),
            "catalog.position": ("Position", "ShardPosition"),
            "catalog.stream_file": ("StreamDescription", "describe_stream"),
            "errors": (
                "BrokerUnavailableError",
                "ClientFailedError",
                "ClosedError",
                "CorruptionError",
                "ForeignDataError",
                "InvalidRequestError",
                "LostRangeError",
                "ShardLockedError",
                "ShardlogError",
                "ShardPoisonedError",
                "UnavailableError",
                "UnsupportedFormatError",
            ),
            "format.contents": ("Contents",),
            "format.counters": ("StreamStats",),
            "format.keys": ("INT64_MAX", "INT64_MIN", "KEY_BYTES_MAX"),
            "format.part_entry": ("PartEntry",),
            "format.record": ("Record", "State"),
            "format.row_columns": ("HEADERS_TYPE",),
            "format.schema_entry": ("SchemaEntry",),
            "format.window": ("UNITS_PER_SECOND", "Unit"),
            "platform.clock": ("Clock", "SystemClock"),
            "platform.file_lock": ("DirectoryLock",),
            "ids.index.worker": ("IndexWorker",),
            "tiering.part_builder": ("PartBuilder",),
            "tiering.report": ("ShardTiering", "TieringReport", "TieringStep"),
            "parts.snapshot": ("Part",),
            "read.request": ("ReadRequest",),
            "read.shard_reader": ("ShardReader",),
            "reader": ("StreamReader",),
            "remote.options": ("ServerOptions",),
            "catalog.root_file": ("share_with_root",),
            "roots": ("list_streams", "root_id"),
            "staging": ("StagingArea",),
            "engine.environment": ("Environment",),
            "engine.open_files": ("files_needed",),
            "stream": ("Stream",),
            "transactions.series": ("TransactionId",),
            "transactions.staged_rows": ("StagedRows", "StagingWriter"),
            "transactions.transaction": ("Transaction",),
            "retention.expiry_report": ("ExpiryReport", "ShardExpiry"),
            "verify.findings": ("Problem",),
            "verify.verify": ("VerifyReport",),
            "write.entry": ("AppendReport",),
        },
    )

__all__ = [
    "HEADERS_TYPE",
    "INT64_MAX",
    "INT64_MIN",
    "KEY_BYTES_MAX",
    "RETRY_SHARDS_FROM",
    "UNITS_PER_SECOND",
    "AppendReport",
    "ArchivedShard",
    "BrokerUnavailableError",
    "ClientFailedError",
    "Clock",
    "ClosedError",
    "Contents",
    "CorruptionError",
    "DirectoryLock",
    "Drop",
    "Environment",
    "ExpiryReport",
    "ForeignDataError",
    "IndexOptions",
    "IndexWorker",
    "InvalidRequestError",
    "LostRangeError",
    "Part",
    "PartBuilder",
    "PartEntry",
    "Position",
    "Problem",
    "ReadRequest",
    "Record",
    "SchemaEntry",
    "ServerOptions",
    "ShardExpiry",
    "ShardLockedError",
    "ShardOwner",
    "ShardPoisonedError",
    "ShardPosition",
    "ShardProgress",
    "ShardReader",
    "ShardTiering",
    "ShardlogError",
    "StagedRows",
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
    "TieringReport",
    "TieringStep",
    "Transaction",
    "TransactionId",
    "UnavailableError",
    "Unit",
    "UnsupportedFormatError",
    "VerifyReport",
    "archived_lineages",
    "archived_shard_directory",
    "archived_shards",
    "describe_stream",
    "drop_stream",
    "dropped_streams",
    "files_needed",
    "is_stream_name",
    "list_streams",
    "remove_archived_shards",
    "root_id",
    "shard_owners",
    "shard_progress",
    "share_with_root",
]
