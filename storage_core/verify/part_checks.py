"""What verify proves of parts: each entry's file is there, and is the one that was published."""

from pathlib import Path

from storage_core.errors import CorruptionError
from storage_core.format.keys import PREFIX_PART, prefix_end
from storage_core.format.part_entry import PartEntry, decode_part
from storage_core.format.shard_state import KEY_CATALOGUE, KEY_PARTS, KEY_SEALED
from storage_core.parts.footer import read_error
from storage_core.parts.part_proof import digest_of
from storage_core.read.cold.parts import part_path, parts_directory, read_index
from storage_core.read.view import ShardView
from storage_core.verify.findings import Findings


def check_parts(view: ShardView, shard_directory: Path, findings: Findings) -> int:
    """Compare a shard's catalogue with the files it names; return how many were read."""
    read = 0
    directory = parts_directory(shard_directory)
    state = view.state
    try:
        read_index(view)
    except CorruptionError as error:
        findings.tell("part", error.message, key=KEY_CATALOGUE)
    for key, data in view.meta_items(PREFIX_PART, prefix_end(PREFIX_PART)):
        try:
            part = decode_part(key, data)
        except CorruptionError as error:
            findings.tell("part", error.message, key=key)
            continue
        place = (part.first, part.last + 1, key)
        if part.number >= state.parts:
            what = f"part {part.number} has an entry, and {state.parts} numbers were given"
            findings.tell("part", what, *place[:2], KEY_PARTS)
        if part.last >= state.sealed:
            what = f"a part has rows up to {part.last}, and rows are sealed below {state.sealed}"
            findings.tell("part", what, *place[:2], KEY_SEALED)
        path = part_path(directory, part)
        what = difference(path, part)
        read += path.is_file()
        if what:
            findings.tell("part", f"{part.file_name} {what}", *place, file=path)
    return read


def difference(path: Path, part: PartEntry) -> str:
    """Say what is wrong with a part's file; nothing if all is well.

    Raises:
        InvalidRequestError: This process has no right to read it, which says nothing of the file.
        UnavailableError: The system cannot read it now.
    """
    try:
        size, digest = path.stat().st_size, digest_of(path)
    except FileNotFoundError:
        return "is gone"
    except OSError as error:
        refusal = read_error(path, error)
        if not isinstance(refusal, CorruptionError):
            raise refusal from error
        return f"cannot be read: {error.strerror}"
    if size != part.size:
        return f"has {size} bytes, and had {part.size} when it was published"
    if digest != part.digest:
        return "is not as it was published"
    return ""
