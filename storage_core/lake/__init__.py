"""The lake: a stream's parts published as a Delta table on an object store.

A name is loaded when it is first asked for (platform/lazy_exports.py).
"""

from typing import TYPE_CHECKING, Final

from storage_core.platform.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from storage_core.lake.beginning.begin import BegunShard, begin_from_lake
    from storage_core.lake.beginning.positions import LakePosition, lake_positions
    from storage_core.lake.beginning.prospects import BeginProspect, begin_prospects
    from storage_core.lake.beginning.starter import LakeStarter
    from storage_core.lake.maintenance.comparison import check_lake
    from storage_core.lake.maintenance.report import LakeCheck, LakeProblem, LakeVacuum
    from storage_core.lake.maintenance.vacuuming import vacuum_stream
    from storage_core.lake.options_file import (
        LAKE_OPTIONS_VARIABLE,
        hand_down_options,
        lake_options,
        option_texts,
    )
    from storage_core.lake.publish import (
        publish_shard,
        publish_shards,
        publish_stream,
        target_of,
    )
    from storage_core.lake.publishing.notes import LakeNote, LakeNotes, was_published
    from storage_core.lake.publishing.ownership import LakeOwnerError
    from storage_core.lake.publishing.publisher import LakePublisher, PublishOrder
    from storage_core.lake.publishing.report import (
        LakeStatus,
        PublishReport,
        ShardLakeStatus,
        ShardPublished,
        UnreadShard,
    )
    from storage_core.lake.repair.repair import repair_lake
    from storage_core.lake.repair.report import LakeRepair, RepairedFile
    from storage_core.lake.status import lake_status, shard_status
    from storage_core.lake.target import LakeTarget, lake_target
    from storage_core.lake.version_files import TableFiles, table_files
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "maintenance.comparison": ("check_lake",),
            "maintenance.report": ("LakeCheck", "LakeProblem", "LakeVacuum"),
            "options_file": (
                "LAKE_OPTIONS_VARIABLE",
                "hand_down_options",
                "lake_options",
                "option_texts",
            ),
            "publish": ("publish_shard", "publish_shards", "publish_stream", "target_of"),
            "publishing.notes": ("LakeNote", "LakeNotes", "was_published"),
            "publishing.ownership": ("LakeOwnerError",),
            "publishing.publisher": ("LakePublisher", "PublishOrder"),
            "publishing.report": (
                "LakeStatus",
                "PublishReport",
                "ShardLakeStatus",
                "ShardPublished",
                "UnreadShard",
            ),
            "repair.repair": ("repair_lake",),
            "repair.report": ("LakeRepair", "RepairedFile"),
            "status": ("lake_status", "shard_status"),
            "beginning.begin": ("BegunShard", "begin_from_lake"),
            "beginning.positions": ("LakePosition", "lake_positions"),
            "beginning.prospects": ("BeginProspect", "begin_prospects"),
            "beginning.starter": ("LakeStarter",),
            "version_files": ("TableFiles", "table_files"),
            "target": ("LakeTarget", "lake_target"),
            "maintenance.vacuuming": ("vacuum_stream",),
        },
        extra="lake",
    )

__all__: Final = [
    "LAKE_OPTIONS_VARIABLE",
    "BeginProspect",
    "BegunShard",
    "LakeCheck",
    "LakeNote",
    "LakeNotes",
    "LakeOwnerError",
    "LakePosition",
    "LakeProblem",
    "LakePublisher",
    "LakeRepair",
    "LakeStarter",
    "LakeStatus",
    "LakeTarget",
    "LakeVacuum",
    "PublishOrder",
    "PublishReport",
    "RepairedFile",
    "ShardLakeStatus",
    "ShardPublished",
    "TableFiles",
    "UnreadShard",
    "begin_from_lake",
    "begin_prospects",
    "check_lake",
    "hand_down_options",
    "lake_options",
    "lake_positions",
    "lake_status",
    "lake_target",
    "option_texts",
    "publish_shard",
    "publish_shards",
    "publish_stream",
    "repair_lake",
    "shard_status",
    "table_files",
    "target_of",
    "vacuum_stream",
    "was_published",
]
