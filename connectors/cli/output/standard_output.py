"""Standard output whose write errors end the command with one line and an exit code.

A full disk or a closed descriptor is a failure, of `--help` too; a reader of the output that has
closed it is none.
"""

import io
import sys
from typing import Any, Final

from connectors.output_formats.whole_file import OutputFailedError, failing
from storage_core.platform.overriding import override

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
    """Raise `OutputFailedError` from here on where standard output refuses to be written."""
    usual = sys.stdout
    if isinstance(usual, io.TextIOWrapper):
        settings: dict[str, Any] = {
            name: getattr(usual, name)
            for name in ("encoding", "errors", "line_buffering", "write_through")
        }
        # Detached, or it would close the descriptor as it goes.
        sys.stdout = StandardOutput(usual.detach(), **settings)


def drop_refused_output() -> None:
    """Drop what standard output refuses: the interpreter would write it again at its end."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError, OutputFailedError):
        sys.stdout = io.StringIO()
