"""The topics that were there when a subscription began: only those begin at `latest`.

    <root>/~first-topics/<digest of group and subscription>.json

A topic that appears later is new as a whole, and its first records are as wanted as any: "latest"
says where to begin in what had been there. The list is written once, by whichever worker of the
root is first, and is durable before that one asks for any partition; so a worker that starts later,
or was away while a topic came, judges as the first would have.
"""

import errno
import hashlib
import json
import os
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from storage_core import CorruptionError, InvalidRequestError, UnavailableError

_DIRECTORY: Final = "~first-topics"
_DIGEST_BYTES: Final = 12
_FULL: Final = (errno.ENOSPC, errno.EDQUOT)


def first_topics(
    root: Path, group: str, subscription: Collection[str], topics: Collection[str]
) -> frozenset[str]:
    """Return the topics of a subscription's beginning, which is now if there was none.

    Args:
        root: The root directory.
        group: The group's name.
        subscription: Names of topics, or a pattern.
        topics: The cluster's topics now.

    Raises:
        InvalidRequestError: The list cannot be written.
        UnavailableError: It cannot for the moment, since the disk is full.
        CorruptionError: The list that is there cannot be read.
    """
    name = json.dumps([group, sorted(subscription)]).encode()
    digest = hashlib.blake2b(name, digest_size=_DIGEST_BYTES).hexdigest()
    place = root / _DIRECTORY / f"{digest}.json"
    try:
        if not place.exists():
            _write_once(place, {"group": group, "topics": sorted(topics)})
        content = json.loads(place.read_text(encoding="utf-8"))
        return frozenset(map(str, content["topics"]))
    except OSError as error:
        message = f"the list of the first topics cannot be kept: {error.strerror or error}"
        # A disk that is full may have room later; all else stays as it is.
        kind = UnavailableError if error.errno in _FULL else InvalidRequestError
        raise kind(message, path=place) from error
    except (ValueError, KeyError, TypeError) as error:
        message = "cannot be read; remove it to have `latest` count for the topics there are"
        raise CorruptionError(message, path=place) from error


def _write_once(place: Path, content: object) -> None:
    """Leave a file that is whole and durable; who comes second leaves the first one's."""
    place.parent.mkdir(parents=True, exist_ok=True)
    scratch = place.with_suffix(f".{os.getpid()}")
    with scratch.open("w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    with suppress(FileExistsError):
        place.hardlink_to(scratch)
    scratch.unlink()
    for above in (place.parent, place.parent.parent):
        directory = os.open(above, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
