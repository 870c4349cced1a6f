"""Which format a document is of: `"format": "<kind>/<number>"` in each JSON file with a checksum.

    shardlog-root/1       root.json           shardlog-stream/1    stream.json
    shardlog-drops/1      drops.json          shardlog-options/1   options.json
    shardlog-export/1     manifest.json of an export

A number that is not known here is refused by name: a later version wrote it. What was written
before 0.1.0, the first release, has no such field and is refused as that.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Literal

from storage_core.errors import UnsupportedFormatError

Kind = Literal["root", "stream", "options", "drops", "export"]

_FIELD: Final = "format"
_NUMBER: Final = 1


def format_name(kind: Kind) -> str:
    """Return what a document of a kind says of its format."""
    return f"shardlog-{kind}/{_NUMBER}"


def format_field(kind: Kind) -> dict[str, str]:
    """Return the field that says it."""
    return {_FIELD: format_name(kind)}


def check_format(
    document: Mapping[str, Any], kind: Kind, path: Path, stream: str | None = None
) -> None:
    """Refuse a document of another format.

    Raises:
        UnsupportedFormatError: Another version of shardlog wrote it.
    """
    written_format = document.get(_FIELD)
    if written_format == format_name(kind):
        return
    if is_of_before(document):
        message = (
            "written by a version before 0.1.0, which no later one reads; "
            "read it with that version and append its rows to a new stream"
        )
    else:
        message = f"format {written_format!r:.60}; this shardlog reads {format_name(kind)!r}"
    raise UnsupportedFormatError(message, stream=stream, path=path)


def is_of_before(document: Mapping[str, Any]) -> bool:
    """Tell whether a version before 0.1.0 wrote a document: its number has a field of its own."""
    return "format_version" in document or document.get(_FIELD) == "shardlog-export"
