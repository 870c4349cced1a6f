"""What a failure in Spark comes to: one line for people, and an exit code.

Spark reports a failure in many lines: its query and plan, the Python and the Java stack of whoever
called whom, and between them what went wrong. An error of ours counts before all else, wherever it
stands, with its own exit code. Of others the line is what Spark says first that is no frame of its
own, and behind it the innermost cause where Spark names it.
"""

import re
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

import storage_core
from storage_core import (
    CorruptionError,
    ForeignDataError,
    InvalidRequestError,
    ShardlogError,
    ShardPoisonedError,
    UnavailableError,
)

EXIT_UNEXPECTED: Final = 1
EXIT_USAGE: Final = 2
EXIT_UNAVAILABLE: Final = 3
# The codes of `shardlog`, by the kind of error.
EXIT_CODES: Final[tuple[tuple[type[ShardlogError], int], ...]] = (
    (InvalidRequestError, EXIT_USAGE),
    (UnavailableError, EXIT_UNAVAILABLE),
    (ForeignDataError, 4),
    (CorruptionError, 5),
    (ShardPoisonedError, 6),
)
# Whatever a call into Spark raises: its own kinds, what it did not translate, and what is left of
# a connection once its process has ended.
SPARK_ERRORS: Final = (PySparkException, Py4JError, ConnectionError, EOFError)

_CAUSES_MAX: Final = 20
# As Spark shows an error that one of its Python processes ended with.
_ERROR: Final = re.compile(r"(?:^|[\s:])(?:[\w.]*\.)?(\w+Error): (.+)")
_FRAME_OF_A_QUERY: Final = re.compile(
    r"^\[STREAM_FAILED\] Query \[.*?\] terminated with exception: "
)
_PLAN_OF_A_QUERY: Final = "=== Streaming Query ==="
_STATE: Final = re.compile(r"\s*SQLSTATE: \w+")
_KIND: Final = r"(?:[\w$]+\.)*[\w$]+"
# What a call into Java ended with, a Python process with, and what lies behind each.
_OF_JAVA: Final = re.compile(rf"^: ({_KIND})(?:: (.*))?$", re.MULTILINE)
_OF_PYTHON: Final = re.compile(
    rf"^({_KIND}(?:Error|Exception|Exit|Interrupt)): (.*)$", re.MULTILINE
)
_CAUSE: Final = re.compile(rf"^Caused by: ({_KIND})(?:: (.*))?$", re.MULTILINE)
_LONG_NAME: Final = re.compile(rf"^({_KIND}\.[\w$]+(?:Error|Exception)): (.*)$", re.DOTALL)
# Kinds that say no more than that something failed.
_BLAND: Final = frozenset({"Exception", "FSError", "IOException", "RuntimeException"})
# It does not pass by itself, as what a disk lacks may.
_NO_RIGHT: Final = re.compile(
    r"Permission denied|Operation not permitted|Read-only file system", re.IGNORECASE
)
_OF_THE_DISK: Final = re.compile(
    r"No space left on device|quota exceeded|Input/output error|Too many open files|"
    r"\(Not a directory\)",
    re.IGNORECASE,
)
_WAS_ENDED: Final = re.compile(
    r"SparkContext (?:was|has been) (?:shut down|stopped)|stopped SparkContext"
)
_ENDED: Final = "Spark's process has ended in the middle; start the job again, it goes on"


def failure_of(error: Exception) -> tuple[str, int]:
    """Return what to tell of a failure in Spark in one line, and the exit code."""
    if not isinstance(error, PySparkException | Py4JJavaError):
        return _ENDED, EXIT_UNAVAILABLE
    texts = texts_of(error)
    ours = next(filter(None, map(error_within, texts)), None)
    if ours is not None:
        return ours[1], code_of(ours[0])
    line = line_of(texts)
    return line or type(error).__name__, _code_of_line(line)


def is_end_of_spark(error: Exception) -> bool:
    """Tell whether nothing failed but that Spark's process was ended."""
    if not isinstance(error, PySparkException | Py4JJavaError):
        return True
    text = "\n".join(texts_of(error))
    return error_within(text) is None and _WAS_ENDED.search(text) is not None


def code_of(kind: type[ShardlogError]) -> int:
    """Return the exit code of a kind of error."""
    return next((code for each, code in EXIT_CODES if issubclass(kind, each)), EXIT_UNEXPECTED)


def error_within(text: str) -> tuple[type[ShardlogError], str] | None:
    """Return the error of ours that Spark's text of a failure names, None if there is none."""
    error = None
    # The last one, which was raised from those before it.
    for match in _ERROR.finditer(text):
        kind = getattr(storage_core, match[1], None)
        if isinstance(kind, type) and issubclass(kind, ShardlogError):
            error = kind, _STATE.sub("", match[2]).strip()
    return error


def line_of(texts: list[str]) -> str:
    """Return what an error's text says in a line; those of its causes follow it."""
    head, root = _head(texts[0]), _root(texts)
    if not root or root in head:
        return head
    return f"{head.rstrip(' .:')}: {root}" if head else root


def texts_of(error: Exception) -> list[str]:
    """Return the text of an error and of its causes, as far as Spark has translated them."""
    texts: list[str] = []
    cause: object = error
    while cause is not None and len(texts) < _CAUSES_MAX:
        texts.append(str(cause))
        cause = getattr(cause, "_cause", None)
    return texts


def _head(text: str) -> str:
    said = _FRAME_OF_A_QUERY.sub("", text).partition(_PLAN_OF_A_QUERY)[0]
    of_java, of_python = _OF_JAVA.findall(said), _OF_PYTHON.findall(said)
    if of_java:
        return _short(*of_java[-1])
    if "Traceback (most recent call last)" in said and of_python:
        return f"{_name(of_python[-1][0])}: {_STATE.sub('', of_python[-1][1]).strip()}"
    lines = [line for line in map(str.strip, said.splitlines()) if line]
    long_name = _LONG_NAME.match(lines[0]) if lines else None
    if long_name:
        return _short(long_name[1], long_name[2])
    return _STATE.sub("", lines[0]).strip() if lines else ""


def _root(texts: list[str]) -> str:
    causes = _CAUSE.findall(texts[0])
    if causes:
        return _short(*causes[-1])
    return _head(texts[-1]) if len(texts) > 1 else ""


def _short(kind: str, message: str) -> str:
    """Return an error's message, behind its kind where that adds something."""
    name, message = _name(kind), _STATE.sub("", message).strip()
    if not message:
        return name
    within = _LONG_NAME.match(message)
    if within:
        return _short(within[1], within[2])
    is_bland = name in _BLAND or name.startswith(("Spark", "PySpark")) or " " in message
    return message if is_bland else f"{name}: {message}"


def _name(kind: str) -> str:
    return re.split(r"[.$]", kind)[-1]


def _code_of_line(line: str) -> int:
    if _NO_RIGHT.search(line):
        return EXIT_USAGE
    return EXIT_UNAVAILABLE if _OF_THE_DISK.search(line) else EXIT_UNEXPECTED
