"""Each event that a worker logs is in OPERATIONS with what to do, and no other event is."""

import ast
import re
from collections.abc import Iterator

from tests.tidy.tree import ROOT

LEVELS = {"debug", "info", "warning", "error"}
# What librdkafka says goes there, and is one event.
LIBRDKAFKA = "quiet_logger()"
# What logs an event later, by the name that it is made with.
LATER = {"FailureLines"}
TABLES = re.compile(r"\| event \|.*?\n\n", re.DOTALL)


def logged(source: str) -> Iterator[str]:
    """Yield the events that a file logs."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        *owner, method = ast.unparse(node.func).split(".")
        is_log = method in LEVELS and "log" in ".".join(owner).lower() and owner != [LIBRDKAFKA]
        if (is_log or method in LATER) and isinstance(node.args[0], ast.Constant):
            yield str(node.args[0].value)


def test_events_of_the_worker_are_those_of_the_document() -> None:
    files = (ROOT / "connectors").rglob("*.py")
    events = {event for path in files for event in logged(path.read_text(encoding="utf-8"))}
    page = (ROOT / "docs" / "OPERATIONS.md").read_text(encoding="utf-8")
    rows = [row for table in TABLES.findall(page) for row in table.splitlines()[2:] if row]
    documented = {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}
    assert len(events) > 30
    assert events - documented == set()
    assert documented - events == set()
