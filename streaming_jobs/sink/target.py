"""The stream a sink writes to: found or made on the driver, as its options say."""

from contextlib import suppress

from storage_core import InvalidRequestError, ShardLockedError
from storage_core.remote.staging_client import StagingClient
from streaming_jobs.common.stream_location import AnyStaging, create_stream, open_staging
from streaming_jobs.sink.options import OPTION_NAMES, SinkOptions


def find_or_make(options: SinkOptions) -> AnyStaging:
    """Return the stream that the options name; on the driver. Close it.

    Raises:
        InvalidRequestError: It takes no rows from Spark, or was made otherwise than asked.
    """
    area = _open_or_create(options)
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


def takes_keys(options: SinkOptions) -> bool:
    """Tell whether rows belong to keys in the stream that is there, or that is to be made."""
    mode = options.creation.key_mode
    with suppress(InvalidRequestError), open_staging(options.path, options.stream) as area:
        mode = area.options.key_mode
    return mode == "dictionary"


def _open_or_create(options: SinkOptions) -> AnyStaging:
    with suppress(InvalidRequestError):
        return open_staging(options.path, options.stream)
    try:
        create_stream(options.path, options.stream, options.creation)
    except (InvalidRequestError, ShardLockedError):
        # Another driver may have made it at this moment, and hold its shards; then it is there.
        with suppress(InvalidRequestError):
            return open_staging(options.path, options.stream)
        raise
    return open_staging(options.path, options.stream)
