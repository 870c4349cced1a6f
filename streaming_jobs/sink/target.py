"""The stream a sink writes to: found or made on the driver, as its options say."""

from collections.abc import Callable
from contextlib import suppress

from storage_core import InvalidRequestError, ShardLockedError
from storage_core.remote.staging_client import StagingClient
from streaming_jobs.common.stream_location import AnyStaging, create_stream, open_staging
from streaming_jobs.sink.options import OPTION_NAMES, SinkOptions


def find_or_make(
    options: SinkOptions, before_making: Callable[[], object] | None = None
) -> AnyStaging:
    """Return the stream that the options name; on the driver. Close it.

    Args:
        options: They name it, and say how it is made.
        before_making: What is called where it is not there, before it is made.

    Raises:
        InvalidRequestError: It takes no rows from Spark, or was made otherwise than asked.
    """
    area = _open_or_create(options, before_making)
    try:
        _check(area, options)
    except BaseException:
        area.close()
        raise
    return area


def _check(area: AnyStaging, options: SinkOptions) -> None:
    if isinstance(area, StagingClient):
        area.refuse_other_roots()
    if area.origin is not None:
        message = (
            f"stream {options.stream!r} holds Kafka's topic {area.origin.topic!r} and is written "
            "by its workers only; write to another stream"
        )
        raise InvalidRequestError(message)
    actual = {
        "unit": area.unit,
        "shards": area.shards,
        "jitter": area.jitter,
        "key_mode": area.options.key_mode,
    }
    for name, wanted in options.fixed.items():
        if actual[name] != wanted:
            message = (
                f"option {OPTION_NAMES.get(name, name)}: stream {options.stream!r} was made with "
                f"{actual[name]}, not {wanted}; this never changes"
            )
            raise InvalidRequestError(message)


def _open_or_create(options: SinkOptions, before_making: Callable[[], object] | None) -> AnyStaging:
    with suppress(InvalidRequestError):
        return open_staging(options.path, options.stream)
    if before_making is not None:
        before_making()
    try:
        create_stream(options.path, options.stream, options.creation)
    except (InvalidRequestError, ShardLockedError):
        # Another driver may have made it at this moment, and hold its shards; then it is there.
        with suppress(InvalidRequestError):
            return open_staging(options.path, options.stream)
        raise
    return open_staging(options.path, options.stream)
