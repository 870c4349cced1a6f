"""The worker's lines in a file: JSON whatever the terminal shows, a new file each day in UTC.

The day's lines are under the name itself, those of days before under the name with their date. A
file belongs to one worker. One that cannot be written any more, as on a full disk, is told once on
standard error and never stops the worker, whose lines go there in any case.
"""

import logging
import os
import sys
from contextlib import suppress
from logging.handlers import TimedRotatingFileHandler
from pathlib import Path

from storage_core import InvalidRequestError


def check_log_file(path: Path) -> None:
    """Refuse a place where no file can be made; nothing is made.

    Raises:
        InvalidRequestError: It is none, or this process may not write there.
    """
    asked = path if path.exists() else path.parent
    if path.is_dir():
        reason = "is a directory; name a file"
    elif not path.parent.is_dir():
        reason = f"cannot be made: {path.parent} is no directory"
    elif not os.access(asked, os.W_OK):
        reason = f"cannot be written: {asked} does not let this user"
    else:
        return
    message = f"log.file {reason}"
    raise InvalidRequestError(message, path=path)


class DailyFile(TimedRotatingFileHandler):
    """A file of lines that begins anew each day. Any thread."""

    def __init__(self, path: Path, keep_days: int) -> None:
        """Open the file, and keep those of so many days before.

        Raises:
            InvalidRequestError: It cannot be opened.
        """
        check_log_file(path)
        self._has_failed = False
        try:
            super().__init__(
                path, when="midnight", backupCount=keep_days, encoding="utf-8", utc=True
            )
        except OSError as error:
            message = f"log.file cannot be opened: {(error.strerror or str(error)).lower()}"
            raise InvalidRequestError(message, path=path) from error

    def write(self, line: str) -> None:
        """Write a line."""
        self.handle(logging.makeLogRecord({"msg": line}))

    def handleError(self, record: logging.LogRecord) -> None:  # type: ignore[explicit-override]  # noqa: ARG002, N802 - logging's own name; needs Python 3.12
        """Tell once that it cannot be written."""
        if self._has_failed:
            return
        self._has_failed = True
        with suppress(OSError, ValueError):
            sys.stderr.write(
                f"log.file {self.baseFilename} cannot be written: {sys.exc_info()[1]}\n"
            )
