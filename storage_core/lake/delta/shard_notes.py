"""What each commit of ours notes of all shards: up to where they are published, and by whom.

The `txn` actions say the same, and are what counts for every other program. But delta-rs reads the
log again for each of them that it is asked for; the note comes with the newest commit. It is
written from the state that the commit follows, in the same file as the actions: a commit of another
program, or one of ours that changes no shard, has none, and the last note before it holds.

    {"format": 1, "whole": true, "shards": {"3": [published, owner]}}

A note without a format is of the first one.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from storage_core.errors import CorruptionError, UnsupportedFormatError
from storage_core.lake.image_names import SHARD

FORMAT: Final = 1
_KEY: Final = "shardlog"
_PUBLISHED: Final = "published"
_MADE: Final = "CREATE TABLE"


class ShardNote(NamedTuple):
    """What is noted of a shard.

    Attributes:
        published: Up to which address it is published; None if it never was.
        owner: The number of the log that publishes it; None where none is named.
    """

    published: int | None
    owner: int | None


@dataclass(frozen=True, slots=True)
class ShardNotes:
    """What a version of a table notes of its shards.

    Attributes:
        shards: The shards that are noted.
        is_whole: Whether they are all that were ever published.
    """

    shards: Mapping[int, ShardNote] = field(default_factory=dict)
    is_whole: bool = False

    def of(self, shard: int) -> ShardNote | None:
        """Return what is known of a shard; None where the log must be asked."""
        if self.is_whole:
            return self.shards.get(shard, ShardNote(None, None))
        return self.shards.get(shard)

    def then(self, changed: Mapping[int, ShardNote]) -> "ShardNotes":
        """Return what is known once some shards have changed."""
        return ShardNotes({**self.shards, **changed}, self.is_whole)

    def metadata(self, ends: Mapping[int, int]) -> dict[str, str]:
        """Return what a commit has in its metadata, of this and for who reads the history.

        Args:
            ends: Up to which address the shards are published that it changes.
        """
        noted = {"format": FORMAT, "whole": self.is_whole, "shards": self.shards}
        return {
            SHARD: ",".join(map(str, ends)),
            _PUBLISHED: ",".join(map(str, ends.values())),
            _KEY: json.dumps(noted, separators=(",", ":")),
        }


def newest_notes(commits: Iterable[Mapping[str, Any]]) -> ShardNotes | None:
    """Return what is noted by the newest of some commits that has a note; None if none has.

    Args:
        commits: What neighbouring commits say of themselves, the newest first.

    Raises:
        UnsupportedFormatError: A later shardlog noted it.
        CorruptionError: No shardlog noted it so.
    """
    for commit in commits:
        noted = commit.get(_KEY)
        if isinstance(noted, str):
            return _decoded(noted)
        if _PUBLISHED in commit:
            # It changed shards, and notes nothing.
            return ShardNotes()
        if commit.get("version") == 0 and commit.get("operation") == _MADE:
            # Nothing was published since the table was made.
            return ShardNotes(is_whole=True)
    return None


def _decoded(text: str) -> ShardNotes:
    try:
        noted: dict[str, Any] = json.loads(text)
        written_as = noted.get("format", 1)
        if written_as != FORMAT:
            message = (
                f"a commit of the table notes its shards in format {written_as}, and this shardlog "
                f"knows {FORMAT}: a later shardlog publishes there; install that one here"
            )
            raise UnsupportedFormatError(message)
        shards = {int(shard): _note(*note) for shard, note in noted["shards"].items()}
        return ShardNotes(shards, bool(noted["whole"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = "what a commit of the table notes of its shards cannot be read"
        raise CorruptionError(message) from error


def _note(published: int | None, owner: int | None) -> ShardNote:
    """Return a note whose values are numbers, if they are there."""
    return ShardNote(*(None if value is None else int(value) for value in (published, owner)))
