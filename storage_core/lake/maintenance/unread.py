"""A file that the store does not give, while it gives others: a problem of that file alone."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from storage_core.errors import InvalidRequestError, UnavailableError
from storage_core.lake.delta.state import log_path
from storage_core.lake.table import LakeFileGoneError, LakeTable


class UnreadFileError(Exception):
    """The store does not give a file, as one in an archive; its text is the reason."""


@contextmanager
def one_file_alone(table: LakeTable) -> Iterator[None]:
    """Let a file that is read keep no other from being read.

    Raises:
        UnreadFileError: The store does not give this one, and gives others.
        LakeFileGoneError: It has none.
        InvalidRequestError: It gives nothing: the credentials were taken away.
        UnavailableError: It gives nothing, or the disk of this machine refuses.
    """
    try:
        yield
    except LakeFileGoneError:
        raise
    except (InvalidRequestError, UnavailableError) as error:
        # Of a disk of this machine the path is told.
        if error.path is not None:
            raise
        # Raises where the store gives nothing else either; that there is no such file is an answer.
        with TemporaryDirectory() as scratch, suppress(LakeFileGoneError):
            table.get(log_path(table.version), Path(scratch) / "commit.json")
        raise UnreadFileError(error.message) from error
