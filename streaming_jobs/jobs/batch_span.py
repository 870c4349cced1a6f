"""Which offsets a micro-batch is of, from the plan that Spark writes into the checkpoint before it.

    <checkpoint>/offsets/<batch>   a version, a line of Spark's, then the source's end
    <checkpoint>/offsets/<batch-1>   where the batch begins; of batch 0 the end's `birth`

Rows do not tell it: a shard of which a batch has none stands somewhere all the same. What is read
up to a batch's begins is all that earlier batches had, and nothing twice.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from storage_core import ForeignDataError, InvalidRequestError
from streaming_jobs.jobs.checkpoint_files import checkpoint_text
from streaming_jobs.source.driver.offsets import StreamOffset, batch_ranges, decode_offset

_OFFSETS: Final = "offsets"


@dataclass(frozen=True, slots=True)
class BatchSpan:
    """The offsets of a batch: each shard's first, and where it ends."""

    begins: Mapping[int, int]
    ends: Mapping[int, int]


def span_of(spark: SparkSession, checkpoint: str, stream: str, batch: int) -> BatchSpan:
    """Return the offsets of a batch that runs or has run.

    Raises:
        InvalidRequestError: The checkpoint is of another query.
        ForeignDataError: It is damaged, or not written as it should be.
    """
    start = _offset(spark, checkpoint, stream, batch - 1) if batch else None
    ranges = batch_ranges(start, _offset(spark, checkpoint, stream, batch))
    begins = {shard: begin or 0 for shard, (begin, _) in ranges.items()}
    return BatchSpan(begins, {shard: end for shard, (_, end) in ranges.items()})


def _offset(spark: SparkSession, checkpoint: str, stream: str, batch: int) -> StreamOffset:
    lines = checkpoint_text(spark, checkpoint, f"{_OFFSETS}/{batch}").splitlines()
    try:
        (line,) = lines[2:]
        streams = decode_offset(json.loads(line)).streams
    except ValueError as error:
        message = f"the checkpoint's plan of batch {batch} cannot be read: begin with a new one"
        raise ForeignDataError(message, stream=stream, path=Path(checkpoint)) from error
    if set(streams) != {stream}:
        message = f"the checkpoint {checkpoint} is of another query; name another directory"
        raise InvalidRequestError(message)
    return streams[stream]
