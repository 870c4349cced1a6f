"""A file that appears whole under its name, or not at all.

It is written beside its place as `.<name>.<random>.partial`, synced, and given its name at the
end. Whatever goes wrong before, an interrupt among it, takes it away again; after a kill it stays
behind under that name and may be deleted.
"""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Self

from storage_core import InvalidRequestError, ShardlogError

# What commands take for no file, as other programs do; one of that name is ./-
STANDARD_OUTPUT: Final = Path("-")
_IN_MEMORY_MAX: Final = 2**20
_NOTHING: Final = "; nothing of it is left"


class OutputFailedError(ShardlogError):
    """What was to be shown could not be written, as on a full disk."""


class WholeFile:
    """Bytes on their way into a file. A context manager: leaving it by an exception drops them."""

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        """Begin a file that will appear at `path`.

        Raises:
            InvalidRequestError: There is a file, or none can be created.
        """
        self.path = path
        self._place = path.resolve()
        self._may_overwrite = overwrite
        self._refuse_what_is_there()
        self._beside = self._place.parent / f".{path.name}.{secrets.token_hex(4)}.partial"
        try:
            self._file = self._beside.open("xb", buffering=_IN_MEMORY_MAX)
        except OSError as error:
            message = f"--to cannot be written: {_reason(error)}"
            raise InvalidRequestError(message, path=path) from error

    @property
    def folder(self) -> Path:
        """The directory it will lie in."""
        return self._place.parent

    def __enter__(self) -> Self:
        return self

    def write(self, data: bytes) -> int:
        """Add bytes.

        Raises:
            OutputFailedError: They cannot be written.
        """
        with failing(f"writing {self.path}", _NOTHING):
            return self._file.write(data)

    def text(self, text: str) -> None:
        """Add text, as UTF-8."""
        self.write(text.encode())

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Give the file its name, or remove it."""
        try:
            if error is None:
                with failing(f"writing {self.path}", _NOTHING):
                    self._file.flush()
                    os.fsync(self._file.fileno())
                    self._name_it()
        finally:
            # What still waits to be written has no place where the disk is full.
            with suppress(OSError):
                self._file.close()
            self._beside.unlink(missing_ok=True)

    def _name_it(self) -> None:
        if self._may_overwrite:
            self._beside.replace(self._place)
        else:
            try:
                # Unlike a rename it never takes the place of a file that came meanwhile.
                os.link(self._beside, self._place)
            except FileExistsError as error:
                raise self._refusal() from error
            except OSError:
                # A file system without links.
                self._refuse_what_is_there()
                self._beside.replace(self._place)
        folder = os.open(self._place.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _refuse_what_is_there(self) -> None:
        try:
            mode = self._place.stat().st_mode
        except FileNotFoundError:
            return
        except OSError as error:
            message = f"--to cannot be written: {_reason(error)}"
            raise InvalidRequestError(message, path=self.path) from error
        if not stat.S_ISREG(mode):
            message = "--to names no regular file; without it rows go to standard output"
            raise InvalidRequestError(message, path=self.path)
        if not self._may_overwrite:
            raise self._refusal()

    def _refusal(self) -> InvalidRequestError:
        message = "--to names an existing file; give --overwrite to replace it"
        return InvalidRequestError(message, path=self.path)


@contextmanager
def failing(doing: str, left: str = "") -> Iterator[None]:
    """Raise an `OSError` of writing output as `OutputFailedError`.

    Args:
        doing: What is done here, for the message.
        left: What is left of the output then, for the message.

    Raises:
        OutputFailedError: The system refused.
    """
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        message = f"{doing} failed: {_reason(error)}{left}"
        raise OutputFailedError(message) from error


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
