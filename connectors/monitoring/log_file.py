"""The worker's lines in a file: JSON whatever the terminal shows, a new file each day in UTC.

The day's lines are under the name itself, those of days before under the name with their date. A
file belongs to one worker, which locks it: two would put each other's days away. One that cannot be
written any more, as on a full disk, or not be put away at midnight, is told once on standard error
and never stops the worker, whose lines go to standard output in any case.
"""

import fcntl
import logging
import os
import sys
from contextlib import suppress
from io import TextIOWrapper
from logging.handlers import TimedRotatingFileHandler
from pathlib import Path

from storage_core import InvalidRequestError, SystemClock, UnavailableError


def check_log_file(path: Path) -> None:
    """Refuse a place where no file can be made; nothing is made.

    Raises:
        InvalidRequestError: It is none, or this process may not write there.
    """
    checked = path if path.exists() else path.parent
    if path.is_dir():
        reason = "is a directory; name a file"
    elif not path.parent.is_dir():
        reason = f"cannot be made: {path.parent} is no directory"
    elif not os.access(checked, os.W_OK):
        reason = f"cannot be written: {checked} does not let this user"
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
            UnavailableError: Another process writes to it.
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
        self._tell_once(f"cannot be written: {sys.exc_info()[1]}")

    def doRollover(self) -> None:  # type: ignore[explicit-override]  # noqa: N802 - logging's own name
        """Begin a new day's file; where that before cannot be put away, go on in it."""
        try:
            super().doRollover()
        except OSError as error:
            self._tell_once(f"goes on, since that of the day before cannot be put away: {error}")
            self.rolloverAt = self.computeRollover(SystemClock().now_ns() // 10**9)
            if self.stream is None:
                self.stream = self._open()

    def _open(self) -> TextIOWrapper:  # type: ignore[explicit-override]  # needs Python 3.12
        stream = super()._open()
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            stream.close()
            message = "log.file is another process's; each worker needs a file of its own"
            raise UnavailableError(message, path=Path(self.baseFilename)) from error
        except OSError:
            # A file system without locks.
            return stream
        return stream

    def _tell_once(self, said: str) -> None:
        if self._has_failed:
            return
        self._has_failed = True
        with suppress(OSError, ValueError):
            sys.stderr.write(f"log.file {self.baseFilename} {said}\n")
