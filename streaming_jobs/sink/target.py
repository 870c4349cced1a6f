"""The stream a sink writes to: found or made on the driver, known again on every executor.

A target names the root and the stream by their random ids, so that a task or a commit that finds
something else at the path says so instead of writing there.
"""

import socket
from contextlib import suppress
from dataclasses import dataclass

from storage_core import (
    ForeignDataError,
    InvalidRequestError,
    ShardLockedError,
    StagingArea,
    Stream,
)
from streaming_jobs.sink.options import SinkOptions


@dataclass(frozen=True, slots=True)
class SinkTarget:
    """A stream by its place and its ids."""

    path: str
    stream: str
    root_id: str
    incarnation: str

    def area(self) -> StagingArea:
        """Return the stream's staging area on this machine.

        Raises:
            ForeignDataError: It is not there, or another one is.
        """
        try:
            area = StagingArea.open(self.path, self.stream)
        except InvalidRequestError as error:
            message = (
                f"host {socket.gethostname()} has no stream {self.stream!r} at {self.path}; "
                f"executors must run on the store's machine: {error.message}"
            )
            raise ForeignDataError(message) from error
        if (area.root_id, area.incarnation) != (self.root_id, self.incarnation):
            message = (
                f"what host {socket.gethostname()} has at {self.path} is not the stream that the "
                "job began with; it was made anew, or is on another machine"
            )
            raise ForeignDataError(message, stream=self.stream)
        return area


def find_or_make(options: SinkOptions) -> StagingArea:
    """Return the stream that the options name; on the driver.

    Raises:
        InvalidRequestError: It takes no rows from Spark, or was made otherwise than asked.
    """
    area = _open_or_create(options)
    if area.origin is not None:
        message = (
            f"stream {options.stream!r} holds Kafka's topic {area.origin.topic!r} and is written "
            "by its workers only; write to another stream"
        )
        raise InvalidRequestError(message)
    there = {"unit": area.unit, "shards": area.shards, "jitter": area.jitter}
    for name, wanted in options.fixed.items():
        if there[name] != wanted:
            message = (
                f"option {name}: stream {options.stream!r} was made with {there[name]}, "
                f"not {wanted}; this never changes"
            )
            raise InvalidRequestError(message)
    return area


def _open_or_create(options: SinkOptions) -> StagingArea:
    with suppress(InvalidRequestError):
        return StagingArea.open(options.path, options.stream)
    # Another driver may make it at this moment, and hold its shards; then it is there.
    refusal: InvalidRequestError | None = None
    try:
        Stream.create(options.path, options.stream, options.creation).close()
    except InvalidRequestError as error:
        refusal = error
    except ShardLockedError:
        pass
    try:
        return StagingArea.open(options.path, options.stream)
    except InvalidRequestError as error:
        raise refusal or error from error
