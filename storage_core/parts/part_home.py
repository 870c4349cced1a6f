"""Where the file of a part is. All who read one open it here."""

from functools import partial

from storage_core.parts.part_bytes import Opener, PartBytes, open_file
from storage_core.parts.snapshot import Part


def opener_of(part: Part) -> Opener:
    """Return what opens the file of a part, as `open_part` does."""
    return partial(open_part, part)


def open_part(part: Part) -> PartBytes:
    """Open the file of a part.

    Raises:
        FileNotFoundError: There is none.
        OSError: The system does not let it be read.
    """
    return open_file(part.path)


def has_part(part: Part) -> bool:
    """Tell whether the file of a part is there."""
    return part.path.exists()
