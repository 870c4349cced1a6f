"""Which files this process has open: those of a test alone, since threads of others open theirs."""

import os
from pathlib import Path


def open_files(under: Path) -> list[str]:
    """Return the paths of open files and directories in a directory, sorted, each as often as open.

    One that was removed since counts as well.
    """
    place, found = os.path.realpath(under), []
    for descriptor in Path("/proc/self/fd").iterdir():
        try:
            path = str(descriptor.readlink())
        except OSError:
            # Closed meanwhile, as the one that lists them is.
            continue
        if path.startswith(place):
            found.append(path)
    return sorted(found)
