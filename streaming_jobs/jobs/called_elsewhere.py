"""A job that is called through Spark Connect, whose batches are done on the machine of its server.

Whoever calls a job claims its directories and opens the stream; what is done with a batch runs
beside Spark's driver. Without Connect both are one process. With it they may be two machines, where
the same path names other directories, without the job's notes and with nothing of what has landed.
So each batch looks first at whether the directories are those that were claimed.
"""

import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame

from storage_core import InvalidRequestError
from storage_core.remote.addresses import names_servers
from streaming_jobs.common.same_directory import DirectoryIdentity
from streaming_jobs.common.spark_features import is_of_connect
from streaming_jobs.jobs.directory_claims import note_of

_ROOT_FILE: Final = "root.json"
Process = Callable[[DataFrame, int], None]


@dataclass(frozen=True, slots=True)
class WhereItWasCalled:
    """What is done with each batch, where the directories are those that the caller saw.

    Attributes:
        process: What is done.
        host: Where the job was called.
        directories: By a file that is never written again, which directory it lies in.
    """

    process: Process
    host: str
    directories: Mapping[Path, DirectoryIdentity]

    def __call__(self, batch: DataFrame, number: int) -> None:
        """Process a batch.

        Raises:
            InvalidRequestError: A directory is another one here, or not there.
        """
        for file, seen in self.directories.items():
            if not _is_same(file, seen):
                message = (
                    f"the job was called on {self.host}, and Spark Connect's server, on "
                    f"{platform.node()}, has another {file.parent} or none: call the job on the "
                    "server's machine, or name what both have"
                )
                raise InvalidRequestError(message)
        self.process(batch, number)


def where_it_was_called(
    frame: DataFrame, process: Process, root: str, checkpoint: str, notes: Iterable[Path] = ()
) -> Process:
    """Return what is done with each batch of a query, checked where Connect may be between.

    Args:
        frame: The query's.
        process: What is done.
        root: The root, or servers over it.
        checkpoint: The query's, which the job has claimed.
        notes: Those of other directories that the job has claimed.
    """
    if not is_of_connect(frame):
        return process
    files = [*note_of(checkpoint), *notes]
    if not names_servers(root):
        files.append(Path(root) / _ROOT_FILE)
    directories = {file: DirectoryIdentity.of(file.parent, file.name) for file in files}
    return WhereItWasCalled(process, platform.node(), directories)


def _is_same(file: Path, seen: DirectoryIdentity) -> bool:
    try:
        return seen.is_same(DirectoryIdentity.of(file.parent, file.name))
    except OSError:
        return False
