"""The stream a sink writes to: found or made on the driver, as its options say."""

from contextlib import suppress

from storage_core import (
    InvalidRequestError,
    ShardLockedError,
    StagingArea,
    Stream,
)
from streaming_jobs.sink.options import SinkOptions


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
    try:
        Stream.create(options.path, options.stream, options.creation).close()
    except (InvalidRequestError, ShardLockedError):
        # Another driver may have made it at this moment, and hold its shards; then it is there.
        with suppress(InvalidRequestError):
            return StagingArea.open(options.path, options.stream)
        raise
    return StagingArea.open(options.path, options.stream)
