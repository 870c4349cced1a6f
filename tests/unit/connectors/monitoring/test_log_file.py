"""The worker's lines: in a file that begins anew each day, and of each logger those wanted."""

import json
import os
import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from connectors.ingest.status.line_output import LogFormat
from connectors.ingest.status.log_lines import open_log, tell_library_lines_left_out
from connectors.monitoring.log_file import DailyFile
from connectors.settings.operations_settings import ALL_LOGGERS, LIBRARY_LOGGER, LOGGERS, LogLevel
from storage_core import InvalidRequestError, SystemClock, UnavailableError
from tests.tidy.tree import ROOT

NOW = datetime.fromtimestamp(SystemClock().now_ns() // 10**9, UTC)
DAY_S = 86_400


@pytest.fixture
def daily(tmp_path):
    made = []

    def opened(keep_days=3):
        made.append(DailyFile(tmp_path / "worker.log", keep_days))
        return made[-1]

    yield opened
    for file in made:
        file.close()


def age(path, days):
    """Let a file have been written so many days ago."""
    then_s = NOW.timestamp() - days * DAY_S
    os.utime(path, (then_s, then_s))


def test_lines_of_a_day_before_go_to_a_file_of_their_own(daily, tmp_path):
    before = daily()
    before.write("old")
    before.close()
    age(tmp_path / "worker.log", 2)
    daily().write("new")
    (dated,) = tmp_path.glob("worker.log.*")
    assert dated.name == f"worker.log.{NOW - timedelta(days=2):%Y-%m-%d}"
    assert (dated.read_text(), (tmp_path / "worker.log").read_text()) == ("old\n", "new\n")


def test_no_more_days_than_wanted_are_kept(daily, tmp_path):
    for days in range(3, 9):
        (tmp_path / f"worker.log.{NOW - timedelta(days=days):%Y-%m-%d}").touch()
    before = daily()
    before.write("old")
    before.close()
    age(tmp_path / "worker.log", 2)
    daily(keep_days=3).write("new")
    names = sorted(path.name[-10:] for path in tmp_path.glob("worker.log.*"))
    assert names == [f"{NOW - timedelta(days=days):%Y-%m-%d}" for days in (4, 3, 2)]


def test_file_goes_on_after_a_restart(daily, tmp_path):
    for line in ("first", "second"):
        file = daily()
        file.write(line)
        file.close()
    assert (tmp_path / "worker.log").read_text() == "first\nsecond\n"


def test_file_of_another_worker_is_refused_and_left_as_it_is(daily, tmp_path):
    first = daily()
    first.write("line")
    with pytest.raises(UnavailableError, match=r"log\.file is another process's"):
        DailyFile(tmp_path / "worker.log", 3)
    first.close()
    daily().write("line")
    assert (tmp_path / "worker.log").read_text() == "line\nline\n"


def test_new_day_is_another_worker_s_no_more_than_the_one_before(daily, tmp_path):
    daily().close()
    age(tmp_path / "worker.log", 2)
    daily().write("new")
    with pytest.raises(UnavailableError):
        DailyFile(tmp_path / "worker.log", 3)


def test_day_that_cannot_be_put_away_goes_on_in_its_file(daily, tmp_path, capsys):
    (tmp_path / "worker.log").touch()
    age(tmp_path / "worker.log", 2)
    # A directory in the place of the file of that day.
    (tmp_path / f"worker.log.{NOW - timedelta(days=2):%Y-%m-%d}").mkdir()
    file = daily()
    for line in ("one", "two"):
        file.write(line)
    assert (tmp_path / "worker.log").read_text() == "one\ntwo\n"
    assert capsys.readouterr().err.count("cannot be put away") == 1


@pytest.mark.parametrize("place", ["", "nowhere/worker.log"])
def test_place_that_can_have_no_file_is_refused(tmp_path, place):
    with pytest.raises(InvalidRequestError, match=r"log\.file .* directory"):
        DailyFile(tmp_path / place, 3)


def test_file_that_takes_nothing_more_is_told_once_and_stops_nobody(capsys):
    full = DailyFile(Path("/dev/full"), 3)
    for _ in range(3):
        full.write("line")
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "log.file /dev/full cannot be written" in said
    stream, full.stream = full.stream, None
    assert stream is not None
    with suppress(OSError):
        stream.close()


def logged(capfd):
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def test_line_names_the_file_that_tells_it_and_goes_to_both(capfd):
    copies: list[str] = []
    log = open_log(LogFormat.JSON, also_to=copies.append)
    log.info("started", root="here")
    (line,) = logged(capfd)
    assert (line["logger"], line["event"], line["root"]) == ("test_log_file", "started", "here")
    assert [json.loads(copy) for copy in copies] == [line]


def test_only_lines_of_the_wanted_levels_are_told(capfd):
    copies: list[str] = []
    levels: dict[str, LogLevel] = {
        ALL_LOGGERS: "warning",
        "test_log_file": "error",
        LIBRARY_LOGGER: "info",
    }
    log = open_log(LogFormat.JSON, levels, copies.append)
    log.warning("of this file")
    log.error("of this file, an error")
    log.bind(logger=LIBRARY_LOGGER).info("of librdkafka")
    log.bind(logger="progress").info("of another")
    log.bind(logger="progress").warning("of another, a warning")
    events = [line["event"] for line in logged(capfd)]
    assert events == ["of this file, an error", "of librdkafka", "of another, a warning"]
    assert len(copies) == len(events)
    tell_library_lines_left_out()


def test_loggers_are_the_files_that_tell_lines():
    connectors = ROOT / "connectors"
    tells = re.compile(r"log\.(debug|info|warning|error)\(")
    places = (*(connectors / "ingest").rglob("*.py"), *(connectors / "dlq").glob("*.py"))
    places = (*places, *(connectors / "serve").glob("*.py"))
    files = {path.stem for path in places if tells.search(path.read_text())}
    assert files - {"log_lines"} == set(LOGGERS) - {ALL_LOGGERS, LIBRARY_LOGGER}


def test_every_logger_is_in_the_handbook():
    text = (ROOT / "docs/CONFIGURATION.md").read_text()
    (listed,) = re.findall(r"leaves\s+lines\s+out:([^.]*)\.", text)
    assert sorted(re.findall(r"`(\w+)`", listed)) == sorted({*LOGGERS} - {ALL_LOGGERS})
