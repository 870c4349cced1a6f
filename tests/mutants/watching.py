"""A plugin of pytest, loaded in a copy of the tree: it writes down what became of each test.

`$MUTANT_REPORT` gets a line of JSON for each phase of a test, and for what could not be collected.
Properties are tried with the same draws each time, and what fails is not made smaller: that it
fails is all that is asked.
"""

import json
import os
from pathlib import Path
from typing import Final

import pytest
from hypothesis import Phase, settings

REPORT: Final = "MUTANT_REPORT"


@pytest.hookimpl(trylast=True)
def pytest_configure() -> None:
    """Let hypothesis do no more than look."""
    settings.register_profile(
        "mutants", settings(), phases=[Phase.explicit, Phase.generate], print_blob=False
    )
    settings.load_profile("mutants")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a phase of a test."""
    _note(report.nodeid, report.when, report.outcome, report.longreprtext)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """Note what could not be collected."""
    if report.failed:
        _note(report.nodeid, "collect", "failed", report.longreprtext)


def _note(test: str, phase: str, outcome: str, output: str) -> None:
    lines = [line for line in output.splitlines() if line.startswith("E ")]
    row = {"test": test, "phase": phase, "outcome": outcome, "why": lines[0] if lines else ""}
    with Path(os.environ[REPORT]).open("a") as file:
        file.write(json.dumps(row) + "\n")
