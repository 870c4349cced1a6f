"""librdkafka's own lines: few of each kind, and none left out without a count."""

import json
import logging
import os
from pathlib import Path

import pytest
import structlog
from structlog.testing import CapturingLogger

from connectors.ingest.status.line_output import LineOutput, LogFormat
from connectors.ingest.status.log_lines import LIBRARY_LOG_EVERY_S, LibraryLines, open_log
from connectors.kafka import LOGGER_NAME, Consumer
from connectors.settings.operations_settings import LIBRARY_LOGGER
from storage_core.testing import ManualClock
from tests.unit.connectors.writers import NOWHERE
from tests.waiting import await_that


class Bench:
    """A handler of librdkafka's lines, its clock, and what it has told."""

    def __init__(self):
        self.clock, self.log = ManualClock(), CapturingLogger()
        self.lines = LibraryLines(self.log, self.clock)

    def says(self, kind, text="text", count=1):
        """Let librdkafka say the same so often."""
        for _ in range(count):
            args = (kind, "shardlog-consumer#consumer-1", text)
            record = logging.LogRecord(LOGGER_NAME, logging.ERROR, "", 0, "%s [%s] %s", args, None)
            self.lines.handle(record)

    def printed(self):
        calls, self.log.calls[:] = list(self.log.calls), []
        return [(call.kwargs["said"].split()[0], call.kwargs.get("left_out", 0)) for call in calls]


@pytest.fixture
def bench():
    return Bench()


def test_first_line_of_each_kind_is_told_at_once(bench):
    bench.says("FAIL")
    bench.says("ERROR")
    assert bench.printed() == [("FAIL", 0), ("ERROR", 0)]


def test_line_is_told_as_it_was_said(bench):
    bench.says("FAIL", "broker:9092: Connect failed")
    (call,) = bench.log.calls
    assert call.kwargs["said"] == "FAIL [shardlog-consumer#consumer-1] broker:9092: Connect failed"


def test_those_of_a_kind_that_follow_are_counted_with_the_next(bench):
    bench.says("FAIL", count=500)
    bench.clock.advance(LIBRARY_LOG_EVERY_S)
    bench.says("FAIL", count=3)
    assert bench.printed() == [("FAIL", 0), ("FAIL", 499)]


def test_an_hour_of_complaints_makes_some_hundred_lines_and_all_are_accounted_for(bench):
    said = 0
    for _ in range(3600):
        bench.says("FAIL", count=20)
        said += 20
        bench.clock.advance(1)
    bench.lines.flush()
    printed = bench.printed()
    assert len(printed) <= 3600 / LIBRARY_LOG_EVERY_S + 2
    assert sum(1 + left_out for _, left_out in printed) == said


def test_what_was_left_out_and_never_followed_is_told_by_a_flush(bench):
    bench.says("FAIL", count=4)
    bench.printed()
    bench.lines.flush()
    bench.lines.flush()
    assert bench.printed() == [("FAIL", 2)]


def test_kinds_without_end_do_not_fill_the_memory(bench):
    for number in range(1000):
        bench.says(f"KIND{number}")
    assert len(bench.printed()) < 100


@pytest.fixture
def logger():
    """Return the library's logger; what a test sets up for it is undone."""
    logger = logging.getLogger(LOGGER_NAME)
    before = list(logger.handlers)
    yield logger
    logger.handlers = before
    structlog.reset_defaults()


@pytest.mark.usefixtures("logger")
def test_client_whose_broker_is_gone_says_a_few_lines(capfd):
    open_log(LogFormat.JSON)
    at_once = {"reconnect.backoff.ms": 5, "reconnect.backoff.max.ms": 5}
    consumer = Consumer({"bootstrap.servers": NOWHERE, "group.id": "g", **at_once})
    said: list[str] = []

    def has_said() -> bool:
        consumer.fetch(1, 0.1)
        lines = capfd.readouterr().out.splitlines()
        said.extend(line for line in lines if "librdkafka" in line)
        return bool(said)

    await_that(has_said, "it complains")
    # From then on it does so some two hundred times a second.
    consumer.fetch(1, 0.5)
    has_said()
    consumer.close()
    assert len(said) <= 4
    assert "Connection refused" in said[0]


@pytest.mark.parametrize(
    ("level", "told_as"),
    [
        (logging.DEBUG, "debug"),
        (logging.INFO, "info"),
        (logging.WARNING, "warning"),
        (logging.ERROR, "warning"),
        (logging.CRITICAL, "error"),
    ],
)
def test_line_of_the_library_is_told_at_its_level(bench, level, told_as):
    bench.lines.handle(logging.LogRecord(LOGGER_NAME, level, "", 0, "KIND text", None, None))
    (call,) = bench.log.calls
    assert call.method_name == told_as


def test_lines_that_were_asked_for_are_all_told(bench):
    for _ in range(5):
        bench.lines.handle(logging.LogRecord(LOGGER_NAME, logging.DEBUG, "", 0, "K", None, None))
    assert len(bench.log.calls) == 5


@pytest.mark.usefixtures("logger")
def test_what_the_library_is_asked_to_say_is_said(capfd):
    open_log(LogFormat.JSON, {LIBRARY_LOGGER: "debug"})
    consumer = Consumer({"bootstrap.servers": NOWHERE, "group.id": "g", "debug": "conf"})
    said: list[str] = []

    def has_said() -> bool:
        consumer.fetch(1, 0.1)
        said.append(capfd.readouterr().out)
        return '"level": "debug"' in said[-1]

    await_that(has_said, "a line of its settings")
    consumer.close()


@pytest.mark.usefixtures("logger")
@pytest.mark.parametrize("fault", ["full", "no reader", "closed"])
def test_output_that_takes_no_lines_stops_nobody(fault, capfd):
    copy = os.dup(1)
    try:
        if fault == "full":
            with Path("/dev/full").open("wb") as full:
                os.dup2(full.fileno(), 1)
        elif fault == "no reader":
            reader, writer = os.pipe()
            os.close(reader)
            os.dup2(writer, 1)
            os.close(writer)
        else:
            os.close(1)
        log = open_log(LogFormat.JSON)
        log.info("left out")
    finally:
        os.dup2(copy, 1)
        os.close(copy)
    log.info("told")
    assert [json.loads(line)["event"] for line in capfd.readouterr().out.splitlines()] == ["told"]


def test_line_that_was_cut_short_stays_alone():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    output = LineOutput(writer)
    output.write("x" * 1_000_000)
    cut = os.read(reader, 1_000_000)
    assert 0 < len(cut) < 1_000_000
    output.write("whole")
    assert os.read(reader, 100) == b"\nwhole\n"
    os.close(reader)
    os.close(writer)


@pytest.mark.usefixtures("logger")
def test_settings_that_the_library_tells_of_itself_have_no_secrets(capfd):
    open_log(LogFormat.JSON, {LIBRARY_LOGGER: "debug"})
    secrets = {
        "sasl.password": "canary",
        "ssl.key.password": "canary",
        "sasl.oauthbearer.client.secret": "canary",
        "sasl.oauthbearer.token.endpoint.url": "https://me:canary@host/t?key=canary",
        "sasl.kerberos.kinit.cmd": "echo canary",
    }
    of_client = {"bootstrap.servers": NOWHERE, "group.id": "g", "debug": "conf"}
    consumer = Consumer({**of_client, **secrets})
    said: list[str] = []

    def has_told_all() -> bool:
        consumer.fetch(1, 0.1)
        said.append(capfd.readouterr().out)
        return "token.endpoint.url = https://***@host/t?***" in "".join(said)

    await_that(has_told_all, "its settings")
    consumer.close()
    printed = "".join(said) + capfd.readouterr().out
    assert "kinit.cmd = ***" in printed
    assert "canary" not in printed
