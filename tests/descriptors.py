"""Which files a process has open, and how many it may.

Of those that are open only a test's own count, since threads of others open theirs.
"""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def open_files(under: Path, process: int | str = "self") -> list[str]:
    """Return the paths of open files and directories in a directory, sorted, each as often as open.

    One that was removed since counts as well.
    """
    place, paths = os.path.realpath(under), []
    for descriptor in Path(f"/proc/{process}/fd").iterdir():
        try:
            path = str(descriptor.readlink())
        except OSError:
            # Closed meanwhile, as the one that lists them is.
            continue
        if path.startswith(place):
            paths.append(path)
    return sorted(paths)


@contextmanager
def descriptors_left(count: int) -> Iterator[None]:
    """Let this process open so many files and no more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.open("/dev/null", os.O_RDONLY)
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
