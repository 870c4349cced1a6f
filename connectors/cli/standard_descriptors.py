"""Standard input, output and error, also for a command that is started without one of them."""

import os
import sys
from typing import Final

_OUTPUT: Final = 1
_STANDARD_LAST: Final = 2


def fill_standard_descriptors() -> None:
    """Open what the process was started without of its standard descriptors, on nothing.

    A closed standard output refuses what is written to it, as a full disk does: otherwise a command
    would end well that has shown nothing.

    IMPORTANT: before any file is opened. The next file would have the number of one that is
    closed, and what libraries say on standard error would be written into it.
    """
    is_output_closed = False
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= _STANDARD_LAST:
        os.set_inheritable(descriptor, True)  # noqa: FBT003 - takes no name
        is_output_closed |= descriptor == _OUTPUT
    os.close(descriptor)
    if is_output_closed:
        refusing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(refusing, _OUTPUT)
        os.close(refusing)
    sys.stdout = sys.stdout or open(_OUTPUT, "w", closefd=False)  # noqa: SIM115 - as long as the process
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115, PTH123 - as above
