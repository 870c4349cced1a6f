"""Standard output as the command's processes have it: what it refuses is a failure of our output.

Whoever writes, the help of a verb too: a full disk or a closed descriptor ends the command by one
line and an exit code. Who reads our output and has enough of it is no failure.
"""

import io
import sys
from typing import Any, Final

from typing_extensions import override

from connectors.output_formats.whole_file import OutputFailedError, failing

_WRITING: Final = "writing to standard output"


class StandardOutput(io.TextIOWrapper):
    """Text to standard output; an `OutputFailedError` where it is refused."""

    @override
    def write(self, text: str, /) -> int:
        with failing(_WRITING):
            return super().write(text)

    @override
    def flush(self) -> None:
        with failing(_WRITING):
            super().flush()


def tell_refusals() -> None:
    """Have what standard output refuses told as a failure, from here on."""
    usual = sys.stdout
    if isinstance(usual, io.TextIOWrapper):
        settings: dict[str, Any] = {
            name: getattr(usual, name)
            for name in ("encoding", "errors", "line_buffering", "write_through")
        }
        # Detached, or it would close the descriptor as it goes.
        sys.stdout = StandardOutput(usual.detach(), **settings)


def drop_refused_output() -> None:
    """Let go of what standard output refuses: the interpreter would try it again at its end."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError, OutputFailedError):
        sys.stdout = io.StringIO()
