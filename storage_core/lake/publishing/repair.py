"""What a table or its store has lost of a shard, by what was done to them from outside.

A restored older version of the table names no file of parts that were published since; a bucket may
lose an object that is named. Publishing compares names alone, and takes a part without a file for
one without visible rows: what is lost is told by what a part surely has, and made good on demand.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from storage_core.errors import CorruptionError
from storage_core.format.part_entry import PartEntry, ShardParts
from storage_core.format.shard_state import AddressRange
from storage_core.lake.image_names import ImageName
from storage_core.lake.publishing.mirror import (
    AddedPart,
    MirrorStep,
    ShardListing,
    base_of,
    parts_without_files,
)
from storage_core.parts.visible_rows import may_hide_rows

HasVisibleRows = Callable[[PartEntry], bool]


def lost_parts(
    listing: ShardListing, parts: ShardParts, has_visible_rows: HasVisibleRows | None = None
) -> list[PartEntry]:
    """Return the parts below the published address of which the table lacks rows.

    Args:
        listing: The part list, and the table.
        parts: What hides rows.
        has_visible_rows: Looks into a part that may have none; if None nothing is said of such.
    """
    if listing.sealed < listing.begin:
        return []
    without = parts_without_files(parts, listing.files, base_of(listing), listing.begin)
    return [
        entry
        for entry in without
        if entry.last < listing.begin
        and (
            not may_hide_rows(entry, parts)
            or (has_visible_rows is not None and has_visible_rows(entry))
        )
    ]


def with_lost_parts(
    listing: ShardListing,
    parts: ShardParts,
    has_visible_rows: HasVisibleRows,
    nowhere: frozenset[str] = frozenset(),
) -> ShardListing:
    """Return a listing by which the next steps add files of lost parts, but of those nobody has."""
    lost = lost_parts(listing, parts, has_visible_rows)
    return replace(listing, missing=frozenset(entry.digest.hex() for entry in lost) - nowhere)


def refuse_lost_parts(listing: ShardListing, parts: ShardParts, stream: str, shard: int) -> None:
    """Tell of a part that the table lacks.

    Raises:
        CorruptionError: There is one.
    """
    lost = lost_parts(listing, parts)
    if lost:
        more = f" and {len(lost) - 1} more" if len(lost) > 1 else ""
        message = (
            f"the table names no file of {lost[0].file_name}{more}, which was published: somebody "
            "took it out, or restored an older version; `shardlog lake repair` brings it back"
        )
        raise CorruptionError(
            message, stream=stream, shard=shard, start=lost[0].first, end=lost[0].last + 1
        )


def repair_step(
    listing: ShardListing,
    sizes: Mapping[str, int],
    stored: Mapping[str, int],
    nowhere: frozenset[str] = frozenset(),
) -> MirrorStep | None:
    """Return a step that makes files anew which the table names and the store lacks.

    Args:
        listing: The part list, and the table.
        sizes: How many bytes the table says that the shard's files have.
        stored: How many the store has of them.
        nowhere: Digests of parts whose file nobody has any more.
    """
    gone = {
        path
        for path, size in sizes.items()
        if stored.get(path) != size and listing.files[path].entry_digest not in nowhere
    }
    added = tuple(_again(listing, gone))
    paths = {path for path in gone if any(_is_of(listing.files[path], part) for part in added)}
    return MirrorStep(added, tuple(sorted(paths)), listing.begin) if added else None


def _again(listing: ShardListing, gone: set[str]) -> Iterator[AddedPart]:
    by_digest = {entry.digest.hex(): entry for entry in listing.entries}
    names = [listing.files[path] for path in sorted(gone)]
    for digest in dict.fromkeys(name.entry_digest for name in names):
        if digest in by_digest:
            pieces = tuple(
                AddressRange(name.first, name.last + 1)
                for name in names
                if name.entry_digest == digest
            )
            yield AddedPart(by_digest[digest], pieces)


def _is_of(name: ImageName, part: AddedPart) -> bool:
    return name.entry_digest == part.entry.digest.hex()
