"""Parts that only the lake has: their files are copied there, and are no more on this machine."""

import shutil
from collections.abc import Iterable
from pathlib import Path

from storage_core import Part, Stream
from storage_core.format.part_entry import visible_file_name
from storage_core.lake.image_names import whole_image_name


def lake_path(lake: Path, part: Part) -> Path:
    """Return where the file of a part is in a lake that is a directory."""
    return lake / whole_image_name(part.shard, part.entry)


def copy_to(lake: Path, parts: Iterable[Part]) -> dict[str, int]:
    """Copy the files of parts into a lake; return what a table would say of them."""
    log = lake / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{0:020}.json").touch()
    files = {}
    for part in parts:
        target = lake_path(lake, part)
        target.parent.mkdir(exist_ok=True)
        shutil.copy(part.path, target)
        files[str(target.relative_to(lake))] = part.entry.size
    return files


def move_away(stream: Stream, lake: Path) -> list[Part]:
    """Let only the lake have the files of all parts of a stream."""
    parts = stream.parts()
    copy_to(lake, parts)
    for part in parts:
        part.path.unlink()
        name = visible_file_name(part.entry.number)
        (part.path.parents[1] / "parts" / name).unlink(missing_ok=True)
    return parts
