"""What delta-rs and its object store raise becomes a typed error of one line.

They raise `DeltaError`, `OSError`, `ValueError` and, where they panic, an exception that is no
`Exception`. Their texts have many lines, colours, answers of the store in XML, and URLs whose query
may hold a signature: one line is made of them, without colours, bodies and queries. The errors
themselves are not handed on as causes, so that no log shows what was left out. What it means can be
told from the text alone; the table below has each text once, and a test for each line.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NoReturn

import deltalake.exceptions as delta_exceptions

from storage_core.errors import (
    CorruptionError,
    InvalidRequestError,
    ShardlogError,
    UnavailableError,
)

# What is said of an error has so many letters at most.
LINE_MAX: Final = 400
_WORD_MAX: Final = 25
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_CODE: Final = re.compile(r"<Code>([^<]*)</Code>(?:.*?<Message>([^<]*)</Message>)?", re.DOTALL)
_BODY: Final = re.compile(r"<\?xml.*|<Error>.*|<html.*", re.DOTALL | re.IGNORECASE)
_BACKTRACE: Final = re.compile(r"\n +0: .*", re.DOTALL)
_QUERY: Final = re.compile(r"\?\S*")
# It repeats the value of an option that it does not understand.
_VALUE: Final = re.compile(r'(?<=parse )\\*"[^"]*"')

# The first line whose text is found says what it is.
_MEANINGS: Final[tuple[tuple[str, type[ShardlogError], str], ...]] = (
    (
        r"NoSuchBucket|bucket does not exist|ContainerNotFound|notFound.*bucket",
        InvalidRequestError,
        "the bucket does not exist; create it, or name another",
    ),
    (
        (
            r"169\.254\.169\.254|metadata\.google|CredentialsNotLoaded|loading credentials"
            r"|Failed to load.*credential|no credentials found"
        ),
        InvalidRequestError,
        "there are no credentials for the store; give them by the environment or by a file",
    ),
    (
        r"Missing \w*AccessKey|credential error|Invalid Access Key|Account must be specified",
        InvalidRequestError,
        "the credentials of the store are incomplete or damaged",
    ),
    (
        r"configured region|PermanentRedirect|AuthorizationHeaderMalformed",
        InvalidRequestError,
        "the bucket is of another region; set AWS_REGION",
    ),
    (
        r"InvalidObjectState|BlobArchived",
        UnavailableError,
        "the file is in an archive of the store; restore it there first",
    ),
    (
        r"URL scheme is not allowed",
        InvalidRequestError,
        "an endpoint without TLS needs the option AWS_ALLOW_HTTP = true",
    ),
    (
        r"Forked process detected",
        InvalidRequestError,
        "a forked process cannot use the lake that its parent uses; spawn it",
    ),
    (
        # NOTE: by its words, since "401.2ms" is a duration.
        (
            r"\b403 Forbidden|\b401 Unauthorized|AccessDenied|InvalidAccessKeyId"
            r"|SignatureDoesNotMatch|ExpiredToken"
        ),
        InvalidRequestError,
        "the store refuses the credentials, or they lack a right",
    ),
    (
        r"Generic Config error|Failed to parse config|Unknown scheme|Region must be",
        InvalidRequestError,
        "the options of the lake are wrong",
    ),
    (
        r"Invalid data type for Delta Lake",
        InvalidRequestError,
        "Delta has no such type",
    ),
    (
        r"Invalid table location",
        InvalidRequestError,
        "what lies there is no directory; name another place",
    ),
    (
        r"Permission denied|Read-only file system|Operation not permitted|not a directory",
        InvalidRequestError,
        "this process may not use the directory of the lake",
    ),
    (
        r"client error \(Connect\)|dns error|timed out|error sending request|Connection reset",
        UnavailableError,
        "the store cannot be reached",
    ),
    (
        r"Local path .* does not exist",
        UnavailableError,
        "there is no such directory: its disk may not be mounted",
    ),
    (r"No space left|Disk quota", UnavailableError, "the disk of the lake is full"),
    (
        r"Json error|Invalid JSON|log segment|checkpoint.*(missing|corrupt)|contiguous commit",
        CorruptionError,
        "the log of the table is damaged",
    ),
)


class LakeConflictError(UnavailableError):
    """Somebody else has committed to the table: load it again, and compare anew."""


class LakeFileGoneError(UnavailableError):
    """The store has no such file: load the table again; if it still names the file, it is lost."""


@contextmanager
def store_errors(uri: str, doing: str) -> Iterator[None]:
    """Give what delta-rs raises a kind, a place and one line.

    Args:
        uri: Where the table is.
        doing: What is being done.

    Raises:
        InvalidRequestError: The bucket, the credentials or the options are wrong.
        LakeFileGoneError: A file is not there.
        UnavailableError: The store does not answer, or answers that it cannot.
        CorruptionError: The log of the table is damaged.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise LakeFileGoneError(_message(doing, "there is no such file", error, uri)) from None
    except (delta_exceptions.DeltaError, OSError, ValueError) as error:
        if isinstance(error, ShardlogError):
            raise
        _raise(error, uri, doing)
    except BaseException as error:
        # NOTE: delta-rs (1.6) panics by an exception that is no `Exception`, and raises bare ones.
        if type(error) is Exception or type(error).__name__ == "PanicException":
            _raise(error, uri, doing)
        raise


def one_line(error: BaseException) -> str:
    """Return what delta-rs says in one line, without colours, bodies and queries."""
    text = _COLOURS.sub("", str(error))
    code = _CODE.search(text)
    text = _BACKTRACE.sub("", _BODY.sub("", text))
    lines = [line.strip(" ↳:") for line in text.splitlines()]
    if code is not None:
        lines += [said for said in code.groups() if said]
    line = ": ".join(line for line in lines if line)
    return _cut(_QUERY.sub("", _VALUE.sub("…", line)))


def _cut(line: str) -> str:
    """Return what of a line there is room for, marked: half a word may be another one."""
    if len(line) <= LINE_MAX:
        return line
    words, _, rest = line[: LINE_MAX - 1].rpartition(" ")
    # A long word, such as an address or a body, tells more in its first half than not at all.
    return f"{words} …" if len(rest) < _WORD_MAX else f"{words} {rest}…".lstrip()


def _raise(error: BaseException, uri: str, doing: str) -> NoReturn:
    text = str(error)
    for pattern, kind, meaning in _MEANINGS:
        if re.search(pattern, text, re.IGNORECASE):
            raise kind(_message(doing, meaning, error, uri)) from None
    message = _message(doing, "the store answers with an error", error, uri)
    raise UnavailableError(message) from None


def _message(doing: str, meaning: str, error: BaseException, uri: str) -> str:
    return f"{doing} ({uri}): {meaning} [{one_line(error)}]"
