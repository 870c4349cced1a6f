"""What a run says beside its heads: what the log is, and what is in no row of its parts.

It is JSON in the key-value metadata of the file. Dead letters are rows of it, since they may be
large.
"""

import json
from base64 import b64decode, b64encode
from dataclasses import dataclass, replace
from typing import Any, Final

from storage_core.catalog.options import KeyMode
from storage_core.catalog.stream_meta import StreamMeta
from storage_core.errors import CorruptionError, UnsupportedFormatError
from storage_core.format.schema_entry import SchemaEntry
from storage_core.format.shard_state import AddressRange
from storage_core.format.window import Unit, WindowWidth

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class RunSettings:
    """What is fixed when a stream is made, of which a row's state and address speak.

    Attributes:
        unit: What primaries count.
        window: How wide its windows are.
        jitter: How far behind its id's largest primary a row may come and still be normal.
        key_mode: Whether rows belong to keys.
    """

    unit: Unit
    window: WindowWidth
    jitter: int
    key_mode: KeyMode

    @classmethod
    def of(cls, meta: StreamMeta) -> "RunSettings":
        """Return those of a stream."""
        return cls(meta.unit, meta.window, meta.jitter, meta.key_mode)

    @property
    def has_keys(self) -> bool:
        """Whether rows belong to keys."""
        return self.key_mode == "dictionary"


@dataclass(frozen=True, slots=True)
class RunNotes:
    """What a run says of its shard, as it was when the run was written.

    Attributes:
        settings: Of the stream.
        schemas: All that have a number in the shard, by number.
        floor: The least live primary.
        cut: The first live address.
        dead_letters: Those of the run's addresses that had not been cleared, by address.
        gaps: Addresses whose rows were given up.
        skipped: Addresses that the log passed over, since its source no longer had them.
    """

    settings: RunSettings
    schemas: tuple[SchemaEntry, ...]
    floor: int
    cut: int
    dead_letters: tuple[tuple[int, bytes], ...] = ()
    gaps: tuple[AddressRange, ...] = ()
    skipped: tuple[AddressRange, ...] = ()


def encode_notes(notes: RunNotes) -> bytes:
    """Return notes, but for dead letters, as JSON."""
    settings = notes.settings
    document = {
        "format": FORMAT,
        "unit": settings.unit,
        "window": settings.window,
        "jitter": settings.jitter,
        "key_mode": settings.key_mode,
        "floor": notes.floor,
        "cut": notes.cut,
        "gaps": [[gap.start, gap.end] for gap in notes.gaps],
        "skipped": [[gap.start, gap.end] for gap in notes.skipped],
        "schemas": [
            [entry.registry_id, b64encode(entry.fingerprint).decode(), entry.text]
            for entry in notes.schemas
        ],
    }
    return json.dumps(document, sort_keys=True).encode()


def decode_notes(data: bytes | None) -> RunNotes:
    """Return what `encode_notes` was given, without dead letters.

    Raises:
        CorruptionError: It made no such bytes.
        UnsupportedFormatError: A later shardlog did.
    """
    try:
        document: dict[str, Any] = json.loads(data or b"")
        written_as = document["format"]
        if written_as != FORMAT:
            message = (
                f"a heads run is of format {written_as}, and this shardlog knows {FORMAT}: a later "
                "shardlog wrote it; install that one here"
            )
            raise UnsupportedFormatError(message)
        settings = RunSettings(
            *(document[name] for name in ("unit", "window", "jitter", "key_mode"))
        )
        schemas = tuple(
            SchemaEntry(registry_id, b64decode(fingerprint), text)
            for registry_id, fingerprint, text in document["schemas"]
        )
        gaps, skipped = (
            tuple(AddressRange(int(start), int(end)) for start, end in document[name])
            for name in ("gaps", "skipped")
        )
        floor, cut = int(document["floor"]), int(document["cut"])
        return RunNotes(settings, schemas, floor, cut, gaps=gaps, skipped=skipped)
    except (ValueError, KeyError, TypeError) as error:
        message = "what a heads run says of its shard cannot be read"
        raise CorruptionError(message) from error


def joined_notes(notes: list[RunNotes]) -> RunNotes:
    """Return what the newest of some runs says, with the dead letters of all; oldest run first.

    What has expired once stays so, whichever of them says it.
    """
    dead_letters = {address: raw for each in notes for address, raw in each.dead_letters}
    return replace(
        notes[-1],
        floor=max(each.floor for each in notes),
        cut=max(each.cut for each in notes),
        dead_letters=tuple(sorted(dead_letters.items())),
    )
