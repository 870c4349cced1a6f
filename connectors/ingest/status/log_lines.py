"""The worker's log: one line an event, JSON for machines or text for a terminal.

Lines go to standard output, and to a file where one is wanted, and never hold payloads, keys or
passwords. librdkafka's own are limited: while a broker is away each of its clients complains
several times a second, in the same words.
"""

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Final

import structlog
from structlog.processors import CallsiteParameter
from structlog.typing import EventDict

from connectors.ingest.status.line_output import LineOutput, LogFormat
from connectors.kafka import LOGGER_NAME, line_without_secrets
from connectors.settings.operations_settings import ALL_LOGGERS, LIBRARY_LOGGER, LogLevel
from storage_core import Clock, SystemClock

LIBRARY_LOG_EVERY_S: Final = 10.0
# The library names few kinds; whatever they are, no more are told apart.
_KINDS_MAX: Final = 64
_OTHER_KIND: Final = "other"
_LEVELS: Final = ("debug", "info", "warning", "error")
_NO_LEVELS: Final[Mapping[str, LogLevel]] = MappingProxyType({})


def open_log(
    chosen: LogFormat | None = None,
    levels: Mapping[str, LogLevel] = _NO_LEVELS,
    also_to: Callable[[str], None] | None = None,
) -> Any:  # noqa: ANN401 - structlog's own return type
    """Return a logger; librdkafka's warnings go the same way, few of each kind.

    Args:
        chosen: How lines look; JSON where they go to no terminal.
        levels: The least level told of each logger, and of `all` others.
        also_to: Takes each line as JSON too.
    """
    output = LineOutput()
    is_json = chosen is LogFormat.JSON or (chosen is None and not output.is_terminal)
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.CallsiteParameterAdder({CallsiteParameter.MODULE}),
            partial(_name_and_filter, levels=levels),
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *([] if also_to is None else [partial(_copied, also_to=also_to)]),
            structlog.processors.JSONRenderer()
            if is_json
            else structlog.dev.ConsoleRenderer(colors=output.is_terminal),
        ],
        logger_factory=lambda *_: output,
    )
    log = structlog.get_logger()
    library = logging.getLogger(LOGGER_NAME)
    library.setLevel(_least_of(levels, LIBRARY_LOGGER, "warning").upper())
    library.handlers = [LibraryLines(log.bind(logger=LIBRARY_LOGGER), SystemClock())]
    library.propagate = False
    return log


def _name_and_filter(
    _logger: object, method: str, line: EventDict, *, levels: Mapping[str, LogLevel]
) -> EventDict:
    """Name a line's logger, after the file that tells it, and drop one that is not wanted.

    Raises:
        structlog.DropEvent: It is not.
    """
    module = line.pop("module")
    name = str(line.setdefault("logger", module))
    if _LEVELS.index(method) < _LEVELS.index(_least_of(levels, name, "info")):
        raise structlog.DropEvent
    return line


def _least_of(levels: Mapping[str, LogLevel], name: str, otherwise: LogLevel) -> LogLevel:
    return levels.get(name, levels.get(ALL_LOGGERS, otherwise))


def _copied(
    _logger: object, _method: str, line: EventDict, *, also_to: Callable[[str], None]
) -> EventDict:
    """Hand a line on as JSON, and leave it as it is."""
    also_to(json.dumps(line, default=repr))
    return line


def tell_library_lines_left_out() -> None:
    """Tell of librdkafka's lines that were left out and that none has followed."""
    for handler in logging.getLogger(LOGGER_NAME).handlers:
        handler.flush()


@dataclass(slots=True)
class _Kind:
    """A kind of line: when one was told, and how many were not since, the last of them."""

    logged_s: float
    left_out: int = 0
    last: str = ""


class LibraryLines(logging.Handler):
    """Hands librdkafka's warnings on: of each kind the first, then one every ten seconds.

    With each goes how many of its kind were left out before it; `flush` tells of those that no
    line has followed. What it calls an error is a warning, since it tries again by itself; what is
    fatal is an error. Lines below warnings come only where they were asked for, and all of them do.
    Any thread.
    """

    def __init__(self, log: Any, clock: Clock) -> None:  # noqa: ANN401 - structlog's own type
        super().__init__()
        self._log = log
        self._clock = clock
        self._kinds: dict[str, _Kind] = {}

    def emit(self, record: logging.LogRecord) -> None:  # type: ignore[explicit-override]  # needs Python 3.12
        """Hand one line on, or count it."""
        said, now_s = line_without_secrets(record.getMessage()), self._clock.monotonic_s()
        if record.levelno < logging.WARNING:
            tell = self._log.info if record.levelno >= logging.INFO else self._log.debug
            tell("librdkafka", said=said)
            return
        if record.levelno >= logging.CRITICAL:
            self._log.error("librdkafka", said=said)
            return
        name = _kind_of(record)
        if name not in self._kinds and len(self._kinds) >= _KINDS_MAX:
            name = _OTHER_KIND
        kind = self._kinds.get(name)
        if kind is not None and now_s - kind.logged_s < LIBRARY_LOG_EVERY_S:
            kind.left_out += 1
            kind.last = said
            return
        self._tell(said, 0 if kind is None else kind.left_out)
        self._kinds[name] = _Kind(now_s)

    def flush(self) -> None:  # type: ignore[explicit-override]  # needs Python 3.12
        """Tell of what was left out so far; the interpreter's end does so too."""
        with self.lock or nullcontext():
            for kind in self._kinds.values():
                if kind.left_out:
                    self._tell(kind.last, kind.left_out - 1)
                    kind.left_out, kind.logged_s = 0, self._clock.monotonic_s()

    def _tell(self, said: str, left_out: int) -> None:
        more = {"left_out": left_out} if left_out else {}
        self._log.warning("librdkafka", said=said, **more)


def _kind_of(record: logging.LogRecord) -> str:
    """Return a line's facility, as FAIL; confluent-kafka gives it, the client and the text."""
    facility = record.args[0] if isinstance(record.args, tuple) and record.args else record.msg
    return str(facility).split(maxsplit=1)[0] if str(facility).strip() else _OTHER_KIND
