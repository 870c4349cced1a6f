"""Which quarantined partitions are to be tried again now: a file a partition, until one has.

    <root>/~retry/<topic>~<partition>.json      ~all for a whole topic

The worker that has quarantined the partition removes the file and tries it. A request that nobody
takes is withdrawn by whoever made it. The files are empty, as a full disk may be why it is asked.
"""

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from connectors.group.partition_files import DirectoryChanges, PartitionFiles
from connectors.kafka import Partition
from storage_core import UnavailableError

_DIRECTORY: Final = "~retry"


class RetryRequests:
    """The requests under a root. `taken` belongs to one thread."""

    def __init__(self, root: Path) -> None:
        self._files = PartitionFiles(root, _DIRECTORY)
        self._changes = DirectoryChanges(self._files.directory)
        # The requests that were there at the last look.
        self._seen: set[Partition] = set()

    def prepare(self) -> None:
        """Make room for requests, while there is some."""
        self._files.prepare()

    def write(self, partition: Partition) -> None:
        """Ask for a partition.

        Raises:
            UnavailableError: The disk does not take it.
        """
        try:
            self._files.write(partition, "", is_durable=False)
        except OSError as error:
            message = f"requesting a retry: {error.strerror or error}"
            raise UnavailableError(message, path=self._files.directory) from error

    def withdraw(self, partition: Partition) -> bool:
        """Take a request back; return whether it was still there."""
        with suppress(OSError):
            return self._files.remove(partition)
        return False

    def has(self, partition: Partition) -> bool:
        """Tell whether nobody has taken a request yet."""
        return self._files.has(partition)

    def taken(self, partitions: Collection[Partition], now_ns: int) -> list[Partition]:
        """Take the requests for some partitions.

        Args:
            partitions: Those that can be tried again.
            now_ns: The wall time.
        """
        if not partitions:
            return []
        if self._changes.may_have_changed(now_ns):
            try:
                self._seen = set(self._files.places())
            except OSError:
                self._changes.forget()
        # One that is there may be quarantined only later.
        requested = self._seen.intersection(partitions)
        self._seen -= requested
        return [at for at in sorted(requested) if self.withdraw(at)]
