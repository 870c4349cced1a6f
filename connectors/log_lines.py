"""The worker's log: one line an event, JSON for machines or text for a terminal.

Lines go to standard error and never hold payloads, keys or passwords.
"""

import logging
import sys
from enum import StrEnum
from typing import Any, Final

import structlog

from connectors.kafka_client import LOGGER_NAME

_LIBRARY_LINES_MIN: Final = logging.WARNING


class LogFormat(StrEnum):
    """How lines look."""

    JSON = "json"
    TEXT = "text"


def open_log(chosen: LogFormat | None = None) -> Any:  # noqa: ANN401 - structlog's own return type
    """Return a logger; librdkafka's warnings go the same way."""
    is_json = chosen is LogFormat.JSON or (chosen is None and not sys.stderr.isatty())
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.JSONRenderer()
            if is_json
            else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    log = structlog.get_logger()
    library = logging.getLogger(LOGGER_NAME)
    library.setLevel(_LIBRARY_LINES_MIN)
    library.handlers = [_Forward(log)]
    library.propagate = False
    return log


class _Forward(logging.Handler):
    """Hands librdkafka's lines on."""

    def __init__(self, log: Any) -> None:  # noqa: ANN401 - structlog's own type
        super().__init__()
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:  # type: ignore[explicit-override]  # needs Python 3.12
        """Hand one line on."""
        self._log.warning("librdkafka", said=record.getMessage())
