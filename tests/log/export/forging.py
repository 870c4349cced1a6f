"""Exports that no export wrote, and whose digests hold: words of scenarios.

forged(rng, directory)        bytes of one file changed, and the manifest with them
moved_out(directory)          one file beside the export, and the manifest says so
OTHER_FIELDS                  what another version may call fields, and what is said of it
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from xxhash import xxh3_128_hexdigest

from storage_core.export.manifest import (
    MANIFEST_FILE,
    ExportedFile,
    encode_manifest,
    read_manifest,
)


def forged(rng: np.random.Generator, directory: Path) -> None:
    """Change bytes of one file of an export, and let the manifest prove what is there now."""
    chunks = read_manifest(directory / MANIFEST_FILE).row_ranges
    files = [file for chunk in chunks for file in chunk.files]
    file = files[rng.integers(0, len(files))]
    data = bytearray((directory / file.name).read_bytes())
    for place in rng.integers(0, len(data), rng.choice([1, 3])):
        data[place] = rng.choice([0, 255, data[place] ^ 1 << int(rng.integers(0, 8))])
    (directory / file.name).write_bytes(data)
    digests = [xxh3_128_hexdigest(data[: piece.bytes]) for piece in file.prefixes]
    pieces = [replace(one, digest=of) for one, of in zip(file.prefixes, digests, strict=True)]
    _tell(directory, file, replace(file, prefixes=tuple(pieces)))


def moved_out(directory: Path) -> str:
    """Move a file of an export beside it; return what the manifest calls it then."""
    file = read_manifest(directory / MANIFEST_FILE).row_ranges[0].files[0]
    (directory / file.name).rename(directory.parent / file.name)
    _tell(directory, file, replace(file, name=f"../{file.name}"))
    return f"../{file.name}"


def _tell(directory: Path, old: ExportedFile, new: ExportedFile) -> None:
    manifest = read_manifest(directory / MANIFEST_FILE)
    chunks = [
        replace(item, files=tuple(new if file == old else file for file in item.files))
        for item in manifest.row_ranges
    ]
    reported = encode_manifest(replace(manifest, row_ranges=tuple(chunks)))
    (directory / MANIFEST_FILE).write_bytes(reported)


def _renamed(fields: dict[str, Any], old: str, new: str) -> None:
    fields[new] = fields.pop(old)


OTHER_FIELDS = [
    (
        lambda manifest: _renamed(manifest, "row_ranges", "chunks"),
        "it has no 'row_ranges', and has 'chunks'",
    ),
    (
        lambda manifest: _renamed(manifest["exported_shards"]["0"], "born", "origin"),
        r"it has no 'exported_shards\.born', and has 'exported_shards\.origin'",
    ),
    (
        lambda manifest: manifest["row_ranges"][0]["files"][0].pop("first"),
        r"it has no 'row_ranges\.files\.first'",
    ),
    (
        lambda manifest: manifest["row_ranges"][0]["files"][0]["prefixes"][0].update(crc=1),
        r"it has 'row_ranges\.files\.prefixes\.crc'",
    ),
    (lambda manifest: manifest["schemas"].append({"id": 1}), "no 'schemas.fingerprint', 'sch"),
    (lambda manifest: manifest["selection"].pop("keys"), r"it has no 'selection\.keys'"),
]
