"""What delta-rs says becomes one line of a kind that tells the caller what to do."""

import pytest
from deltalake.exceptions import DeltaError

from storage_core import (
    CorruptionError,
    InvalidRequestError,
    ShardlogError,
    UnavailableError,
    UnsupportedFormatError,
)
from storage_core.lake.delta_errors import LINE_MAX, LakeFileGoneError, one_line, store_errors

URI = "s3://bucket/table"
# As delta-rs 1.6.6 says it, for a server that answered so.
COLOURED = (
    "Kernel error -> Generic S3 error\n          \x1b[31m↳\x1b[0m Error performing GET "
    "http://127.0.0.1:9/b?X-Amz-Signature=secret in 3ms - Server returned non-2xx status code\n"
    "            \x1b[31m↳\x1b[0m 404 Not Found\n             \x1b[31m↳\x1b[0m "
    '<?xml version="1.0" encoding="utf-8"?>\n<Error><Code>NoSuchBucket</Code>'
    "<Message>The specified bucket does not exist</Message><HostId>Gj+c</HostId></Error>\n"
)


def raised(error: BaseException) -> ShardlogError:
    with pytest.raises(ShardlogError) as failure, store_errors(URI, "loading the table"):
        raise error
    return failure.value


@pytest.mark.parametrize(
    ("text", "kind", "meaning"),
    [
        (COLOURED, InvalidRequestError, "bucket does not exist"),
        (
            "Error performing PUT http://169.254.169.254/latest/api/token in 9ms",
            InvalidRequestError,
            "no credentials",
        ),
        (
            "Operation not supported\nno credentials found in chain. client error (Connect)",
            InvalidRequestError,
            "no credentials",
        ),
        (
            "an error occurred while loading credentials\nIMDS is disabled: request forbidden",
            InvalidRequestError,
            "no credentials",
        ),
        ("403 Forbidden\n<Error><Code>AccessDenied</Code></Error>", InvalidRequestError, "refuses"),
        ("400 Bad Request\n<Error><Code>ExpiredToken</Code></Error>", InvalidRequestError, "refus"),
        ('Generic Config error: failed to parse "soon"', InvalidRequestError, "options"),
        ('Failed to parse config: [("max_retries", …)]', InvalidRequestError, "options"),
        ("Generic S3 error: Missing SecretAccessKey", InvalidRequestError, "incomplete"),
        ("GCP credential error: Unable to open a file", InvalidRequestError, "incomplete"),
        ("Invalid Access Key: Invalid symbol 33", InvalidRequestError, "incomplete or damaged"),
        ("Generic MicrosoftAzure error: Account must be specified", InvalidRequestError, "inco"),
        (
            "Received redirect without LOCATION: an incorrectly configured region",
            InvalidRequestError,
            "another region",
        ),
        ("301\n<Error><Code>PermanentRedirect</Code></Error>", InvalidRequestError, "another reg"),
        ("builder error\nURL scheme is not allowed", InvalidRequestError, "AWS_ALLOW_HTTP"),
        (
            "lacked the privileges\n403 Forbidden\n<Error><Code>InvalidObjectState</Code></Error>",
            UnavailableError,
            "in an archive",
        ),
        (
            "409 Conflict\n<Error><Code>BlobArchived</Code></Error>",
            UnavailableError,
            "in an archive",
        ),
        ("Forked process detected - current PID is 1", InvalidRequestError, "spawn it"),
        ("Invalid data type for Delta Lake: Time64(µs)", InvalidRequestError, "no such type"),
        ("Permission denied (os error 13)", InvalidRequestError, "may not use the directory"),
        ("client error (Connect)\ntcp connect error", UnavailableError, "cannot be reached"),
        ("error sending request\noperation timed out", UnavailableError, "cannot be reached"),
        (
            "503 after 2 retries in 401.2ms: connection reset",
            UnavailableError,
            "cannot be reached",
        ),
        ("status code: 401 Unauthorized", InvalidRequestError, "refuses"),
        ("503 Service Unavailable", UnavailableError, "answers with an error"),
        ("No space left on device (os error 28)", UnavailableError, "disk of the lake is full"),
        (
            'Local path "/mnt/lake" does not exist or you don\'t have access!: Os { code: 2 }',
            UnavailableError,
            "its disk may not be mounted",
        ),
        ("Kernel error: Json error: unexpected 'g'", CorruptionError, "log of the table"),
        ("Expected contiguous commit files, but found gap", CorruptionError, "log of the table"),
        ("Invalid table location: Path does not exist", InvalidRequestError, "no directory"),
    ],
)
def test_text_has_its_meaning(text, kind, meaning):
    for error in (OSError(text), DeltaError(text), ValueError(text), Exception(text)):
        translated = raised(error)
        assert type(translated) is kind
        assert meaning in str(translated)
        assert str(translated).startswith(f"loading the table ({URI})")


def test_line_has_neither_colours_nor_bodies_nor_signatures():
    line = one_line(OSError(COLOURED))
    assert line == (
        "Kernel error -> Generic S3 error: Error performing GET http://127.0.0.1:9/b in 3ms - "
        "Server returned non-2xx status code: 404 Not Found: NoSuchBucket: "
        "The specified bucket does not exist"
    )


@pytest.mark.parametrize(
    "text",
    [
        'Generic Config error: failed to parse "secret" as boolean',
        'config: [("max_retries", "error: failed to parse \\"secret\\" as usize")]',
        "GET http://host/b?X-Amz-Signature=secret in 3 ms",
    ],
)
def test_values_of_options_and_signatures_are_not_repeated(text):
    error = raised(OSError(text))
    assert "secret" not in str(error)
    assert error.__cause__ is None
    assert error.__suppress_context__


def test_backtrace_is_left_out():
    assert one_line(Exception("Schema error\n   0: <unknown>\n   1: main")) == "Schema error"


@pytest.mark.parametrize("length", range(LINE_MAX - 60, LINE_MAX - 1))
def test_long_line_is_cut_between_words_and_says_so(length):
    text = "x" * length + " tcp connect error: Connection refused (os error 111)"
    line = one_line(OSError(text))
    assert len(line) <= LINE_MAX
    assert line == text or line.endswith(" …")
    assert line == text or set(line.split()[:-1]) <= set(text.split())


def test_long_word_is_cut_within_and_says_so():
    assert one_line(OSError("x" * 1000)) == "x" * (LINE_MAX - 1) + "…"


def test_line_of_the_most_letters_is_whole():
    assert one_line(OSError("x" * LINE_MAX)) == "x" * LINE_MAX


def test_missing_file_is_told_as_such():
    assert isinstance(raised(FileNotFoundError("Object at a not found")), LakeFileGoneError)


def test_panic_is_an_error_of_ours():
    class PanicException(BaseException):
        pass

    assert isinstance(raised(PanicException("index out of bounds")), UnavailableError)


@pytest.mark.parametrize("error", [UnsupportedFormatError("a"), InvalidRequestError("b")])
def test_errors_of_ours_pass(error):
    assert raised(error) is error


def test_interrupts_and_faults_of_ours_pass():
    for error in (KeyboardInterrupt(), AssertionError("a"), KeyError("b")):
        with pytest.raises(type(error)), store_errors(URI, "loading the table"):
            raise error
