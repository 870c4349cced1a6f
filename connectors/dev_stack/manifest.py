"""What a fetched directory holds, so that damage is found before a JVM trips over it.

`manifest.json` lists what was fetched with its SHA-256, and every file with size, time of change
and SHA-256. A file of the same size and time is taken as unchanged; any other is hashed. A
directory without a manifest was never finished.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from storage_core import CorruptionError

MANIFEST_FILE: Final = "manifest.json"


def sha256_of(path: Path) -> str:
    """Return the checksum of a file in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_pins(fetched: Mapping[str, str], pins: Mapping[str, str]) -> None:
    """Hold what was fetched to the checksums that stand in the source.

    Raises:
        CorruptionError: A file is missing or another one.
    """
    for name, expected in pins.items():
        found = fetched.get(name, "nothing")
        if found != expected:
            message = f"{name} has SHA-256 {found}, not {expected}: do not run it"
            raise CorruptionError(message)


def write_manifest(directory: Path, fetched: Mapping[str, str]) -> None:
    """List all files of a directory; what was fetched is told apart, as it may be unpacked."""
    files = {
        path.relative_to(directory).as_posix(): {
            "size": path.stat().st_size,
            "changed_ns": path.stat().st_mtime_ns,
            "sha256": sha256_of(path),
        }
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
    text = json.dumps({"fetched": dict(fetched), "files": files}, indent=1)
    (directory / MANIFEST_FILE).write_text(text, encoding="utf-8")


def damage_of(directory: Path, pins: Mapping[str, str]) -> str | None:
    """Say why a directory is not what was fetched, or None."""
    try:
        manifest = json.loads((directory / MANIFEST_FILE).read_text(encoding="utf-8"))
        check_pins(manifest["fetched"], pins)
        for name, facts in manifest["files"].items():
            if not _is_unchanged(directory / name, facts):
                return f"{name} has changed"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"{MANIFEST_FILE} cannot be used: {error}"
    except CorruptionError as error:
        return error.message
    return None


def _is_unchanged(path: Path, facts: Mapping[str, Any]) -> bool:
    found = path.stat()
    if found.st_size != facts["size"]:
        return False
    return bool(found.st_mtime_ns == facts["changed_ns"] or sha256_of(path) == facts["sha256"])
