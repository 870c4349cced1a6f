"""What is told of staged transactions, as JSON documents, each beside its inverse."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

from storage_core.catalog.options import StreamOptions
from storage_core.catalog.origin import StreamOrigin, decode_origin, encode_origin
from storage_core.catalog.stream_meta import decode_known_options, encode_options
from storage_core.format.contents import Contents, decode_contents, encode_contents
from storage_core.transactions.manifest import Parts
from storage_core.transactions.series import Mark
from storage_core.transactions.staged_rows import StagedRows


@dataclass(frozen=True, slots=True)
class StagingFacts:
    """What a stream is to those who stage rows for it.

    Attributes:
        incarnation: The random id made with it, in hex.
        options: The options in force.
        origin: What it is a copy of; such a stream takes no staged rows.
    """

    incarnation: str
    options: StreamOptions
    origin: StreamOrigin | None


@dataclass(frozen=True, slots=True)
class Decided:
    """What is known of a transaction.

    Attributes:
        is_decided: Whether it was published, finished or passed by its series.
        contents: What it held, where that is known.
        mark: How far its series has come.
    """

    is_decided: bool
    contents: Contents | None
    mark: Mark | None


def encode_staged(parts: Parts) -> dict[str, Any]:
    """Return what each shard has in which file."""
    return {str(shard): [[*astuple(part)] for part in staged] for shard, staged in parts.items()}


def decode_staged(document: Mapping[str, Any]) -> dict[int, tuple[StagedRows, ...]]:
    """Return what `encode_staged` was given."""
    return {
        int(shard): tuple(StagedRows(*values) for values in staged)
        for shard, staged in document.items()
    }


def encode_facts(facts: StagingFacts) -> dict[str, Any]:
    """Return what a stream is as a document."""
    return {
        "incarnation": facts.incarnation,
        "options": encode_options(facts.options),
        "origin": encode_origin(facts.origin),
    }


def decode_facts(document: Mapping[str, Any]) -> StagingFacts:
    """Return what `encode_facts` was given."""
    return StagingFacts(
        str(document["incarnation"]),
        decode_known_options(document["options"]),
        decode_origin(document["origin"]),
    )


def encode_decided(decided: Decided) -> dict[str, Any]:
    """Return what is known of a transaction as a document."""
    mark = decided.mark
    held = {} if mark is None else mark.contents
    return {
        "is_decided": decided.is_decided,
        "contents": None if decided.contents is None else encode_contents(decided.contents),
        "mark": None
        if mark is None
        else {
            "number": mark.number,
            "contents": {str(n): encode_contents(one) for n, one in held.items()},
            "skipped": mark.skipped,
        },
    }


def decode_decided(document: Mapping[str, Any]) -> Decided:
    """Return what `encode_decided` was given."""
    contents, mark = document["contents"], document["mark"]
    return Decided(
        bool(document["is_decided"]),
        None if contents is None else decode_contents(contents),
        None
        if mark is None
        else Mark(
            int(mark["number"]),
            {int(n): decode_contents(one) for n, one in mark["contents"].items()},
            int(mark["skipped"]),
        ),
    )
