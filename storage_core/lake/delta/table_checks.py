"""Which table shardlog writes to: its own stream's, without what would break its promises."""

from collections.abc import Mapping
from typing import Final

from deltalake import DeltaTable

from storage_core.errors import ForeignDataError, InvalidRequestError, UnsupportedFormatError
from storage_core.lake.app_id import LakeStream, described_stream
from storage_core.lake.delta_errors import store_errors
from storage_core.lake.image_names import SHARD
from storage_core.lake.target import LakeTarget

# What a table is made with; of what other programs add to it these features change nothing for us.
_READER_MAX: Final = 1
_WRITER_MAX: Final = 2
_WITH_FEATURES: Final = (3, 7)
_HARMLESS: Final = frozenset({"appendOnly", "invariants", "checkConstraints", "domainMetadata"})
# Properties that no table of ours may have, and why.
_FORBIDDEN: Final[Mapping[str, str]] = {
    "delta.setTransactionRetentionDuration": "it lets go of how far the stream is published",
}
_FORBIDDEN_IF_TRUE: Final[Mapping[str, str]] = {
    "delta.appendOnly": "compaction and expiry remove files",
    "delta.enableChangeDataFeed": "files that are replaced would be read as changes",
}


def refuse_unusable(delta: DeltaTable, target: LakeTarget, stream: LakeStream) -> None:
    """Refuse a table that is not the stream's, or cannot be written as it is.

    Raises:
        ForeignDataError: It is another stream's, or none of shardlog.
        InvalidRequestError: It has a property that breaks its promises.
        UnsupportedFormatError: It needs features of Delta that shardlog does not have.
    """
    with store_errors(target.uri, "reading what the table is"):
        metadata = delta.metadata()
        protocol = delta.protocol()
    _refuse_foreign(metadata.description, target, stream)
    if metadata.partition_columns != [SHARD]:
        message = f"the table at {target.uri} is partitioned by {metadata.partition_columns}"
        raise ForeignDataError(message, stream=stream.name)
    forbidden = {name: why for name, why in _FORBIDDEN.items() if metadata.configuration.get(name)}
    forbidden |= {
        name: why
        for name, why in _FORBIDDEN_IF_TRUE.items()
        if str(metadata.configuration.get(name)).lower() == "true"
    }
    for name, why in forbidden.items():
        message = f"the table at {target.uri} has the property {name}: {why}; unset it"
        raise InvalidRequestError(message, stream=stream.name)
    features = {*(protocol.reader_features or ()), *(protocol.writer_features or ())} - _HARMLESS
    versions = (protocol.min_reader_version, protocol.min_writer_version)
    is_old = versions[0] <= _READER_MAX and versions[1] <= _WRITER_MAX
    with_features = versions[0] in (_READER_MAX, _WITH_FEATURES[0]) and (
        versions[1] == _WITH_FEATURES[1]
    )
    if features or not (is_old or with_features):
        needed = ", ".join(sorted(features)) or f"reader {versions[0]}, writer {versions[1]}"
        message = (
            f"the table at {target.uri} needs what shardlog does not write ({needed}); "
            "publish to another place"
        )
        raise UnsupportedFormatError(message, stream=stream.name)


def _refuse_foreign(description: str | None, target: LakeTarget, stream: LakeStream) -> None:
    owner = described_stream(description)
    if owner == stream:
        return
    if owner is None:
        message = (
            f"the table at {target.uri} was not made by shardlog; name a place of the stream's own"
        )
    elif owner.name != stream.name:
        message = (
            f"the table at {target.uri} is of the stream {owner.name!r}; "
            "name a place of the stream's own"
        )
    else:
        message = (
            f"the table at {target.uri} is of another stream of this name ({owner.identity}, here "
            f"{stream.identity}): its topic or the stream was made anew; name a new place"
        )
    raise ForeignDataError(message, stream=stream.name)
