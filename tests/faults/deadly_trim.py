"""The child process that trims and kills itself at a call to its store or marker."""

from storage_core import Stream
from tests.faults.deadly_expiry import NAME, DeadlyDisk, Death


def trim_and_die(death: Death) -> None:
    """Trim all that is sealed, and die at a call of it, if there are so many."""
    disk = DeadlyDisk(has_segments=death.has_segments)
    with Stream.open(death.root, NAME, environment=disk.environment) as stream:
        disk.calls.clear()
        disk.dies_before = death.call
        stream.trim()
        disk.dies_before = None
