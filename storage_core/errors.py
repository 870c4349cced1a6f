"""Every error shardlog raises; the kind tells the caller what to do.

ShardlogError
|- InvalidRequestError      fix the code, option or schema (also a ValueError)
|- ClosedError              the stream or reader was closed
|- UnavailableError         retry later
|  |- ShardLockedError      another writer holds the shard; the message names it
|  `- BrokerUnavailableError  the broker or registry did not answer in time
|- ForeignDataError         not ours to touch: another incarnation or lineage; stop
|- CorruptionError          stop this shard and repair it
|  |- LostRangeError        acknowledged addresses are gone, or expired
|  `- UnsupportedFormatError  written by another version of shardlog
|- ShardPoisonedError       an earlier durable write failed; reopen to recover
`- ClientFailedError        the client of a source failed for good; end, begin with a new one

Where an error concerns a place, it carries that place as attributes and says it in its text.
"""

from pathlib import Path
from typing import ClassVar, Self


class ShardlogError(Exception):
    """Root of all shardlog errors.

    Attributes:
        stream: Name of the stream concerned, if known.
        shard: Number of the shard concerned, if known.
        path: File or directory concerned, if known.
        start: First address concerned, if known.
        end: Exclusive end of the addresses concerned, if known.
    """

    retriable: ClassVar[bool] = False

    def __init__(  # noqa: PLR0913 - the parts of a place
        self,
        message: str,
        *,
        stream: str | None = None,
        shard: int | None = None,
        path: Path | None = None,
        start: int | None = None,
        end: int | None = None,
    ) -> None:
        """Keep the place and add it to the text."""
        self.message = message
        self.stream = stream
        self.shard = shard
        self.path = path
        self.start = start
        self.end = end
        place = []
        if stream is not None:
            place.append(f"stream {stream!r}")
        if shard is not None:
            place.append(f"shard {shard}")
        if start is not None and end is not None:
            place.append(f"addresses [{start}, {end})")
        if path is not None:
            # It may be a directory; to look would be to wait for a disk that may hang.
            place.append(f"at {path}")
        super().__init__(f"{message} ({', '.join(place)})" if place else message)

    def placed(self, stream: str, shard: int | None = None) -> Self:
        """Return this error with the stream, and the shard if it is of one, that it lacked."""
        return type(self)(
            self.message,
            stream=self.stream or stream,
            shard=shard if self.shard is None else self.shard,
            path=self.path,
            start=self.start,
            end=self.end,
        )


class InvalidRequestError(ShardlogError, ValueError):
    """The call, option or schema is wrong; nothing was changed."""


class ClosedError(ShardlogError):
    """The stream or reader was closed."""


class UnavailableError(ShardlogError):
    """A bounded wait ran out; the same call may succeed later."""

    retriable: ClassVar[bool] = True


class ShardLockedError(UnavailableError):
    """Another writer holds the shard."""


class BrokerUnavailableError(UnavailableError):
    """The broker or registry did not answer in time."""


class ForeignDataError(ShardlogError):
    """What lies there belongs to another incarnation or lineage; stop, do not retry."""


class CorruptionError(ShardlogError):
    """Bytes on disk are not what was written; stop this shard and repair it."""


class LostRangeError(CorruptionError):
    """Addresses in the range were acknowledged and are gone, or have expired."""


class UnsupportedFormatError(CorruptionError):
    """Another version of shardlog wrote the data; the message says what to do."""


class ShardPoisonedError(ShardlogError):
    """An earlier durable write failed; the shard refuses all work until it is reopened."""


class ClientFailedError(ShardlogError):
    """The client of a source can do no more, as when another took its place; begin a new one."""
