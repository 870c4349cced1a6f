"""What `--py-files` ships, where Spark looks for it while it plans a stream.

Spark puts all that is shipped into one folder, and its Python processes look there. The one that
plans a stream is told of a folder in it, `streaming_job`, which nothing makes (4.0 to 4.3), so that
a source which was shipped is found for batches alone. Here a link back to the folder takes that
name. `load` calls it, in a process beside the driver, before any query starts.
"""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

from pyspark import SparkFiles

from streaming_jobs.common.spark_errors import WORKERS_OWN

_OF_STREAMS: Final = "streaming_job"


def show_shipped_files_to_streams() -> None:
    """Let processes that plan streams find what was shipped, if shardlog was."""
    if WORKERS_OWN not in sys.modules:
        return
    folder = Path(SparkFiles.getRootDirectory())
    if not Path(__file__).is_relative_to(folder):
        return
    # Where it is there already, or cannot be made, Spark says what it lacks.
    with suppress(OSError):
        (folder / _OF_STREAMS).symlink_to(".", target_is_directory=True)
