"""Checks of parts: the file of each entry exists and has the published digest."""

from pathlib import Path

from storage_core.errors import CorruptionError
from storage_core.format.keys import PREFIX_PART, prefix_end
from storage_core.format.part_entry import PartEntry, decode_part
from storage_core.format.shard_state import KEY_PART_LIST, KEY_PARTS, KEY_SEALED
from storage_core.parts.footer import read_error
from storage_core.parts.part_proof import digest_of
from storage_core.parts.snapshot import Part, listed_part, parts_directory, read_index
from storage_core.read.snapshot import ShardSnapshot
from storage_core.verify.findings import Findings


def check_parts(view: ShardSnapshot, shard_directory: Path, findings: Findings) -> int:
    """Compare a shard's part list with its files; return how many were read."""
    read = 0
    directory = parts_directory(shard_directory)
    state = view.state
    try:
        read_index(view)
    except CorruptionError as error:
        findings.add("part", error.message, key=KEY_PART_LIST)
    for key, data in view.meta_items(PREFIX_PART, prefix_end(PREFIX_PART)):
        try:
            part = decode_part(key, data)
        except CorruptionError as error:
            findings.add("part", error.message, key=key)
            continue
        place = (part.first, part.last + 1, key)
        if part.number >= state.parts:
            message = f"part {part.number} is listed, but only {state.parts} numbers were assigned"
            findings.add("part", message, *place[:2], KEY_PARTS)
        if part.last >= state.sealed:
            message = (
                f"a part has rows up to {part.last}, but rows are sealed only below {state.sealed}"
            )
            findings.add("part", message, *place[:2], KEY_SEALED)
        listed = listed_part(view.shard, directory, part)
        message = part_difference(listed)
        read += listed.path.is_file()
        if message:
            findings.add("part", f"{part.file_name} {message}", *place, file=listed.path)
    return read


def part_difference(part: Part) -> str:
    """Say what is wrong with the file of a part, wherever it is; nothing if all is well.

    Raises:
        InvalidRequestError: This process has no right to read it, which says nothing of the file.
        UnavailableError: It cannot be read now.
    """
    return difference(part.path, part.entry)


def difference(path: Path, part: PartEntry) -> str:
    """Say what is wrong with a part's file; nothing if all is well.

    Raises:
        InvalidRequestError: This process has no right to read it, which says nothing of the file.
        UnavailableError: The system cannot read it now.
    """
    try:
        size, digest = path.stat().st_size, digest_of(path)
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        refusal = read_error(path, error)
        if not isinstance(refusal, CorruptionError):
            raise refusal from error
        return f"cannot be read: {error.strerror}"
    if size != part.size:
        return f"has {size} bytes, expected {part.size}"
    if digest != part.digest:
        return "does not match its digest"
    return ""
