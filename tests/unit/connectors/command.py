"""The command as tests run it: in this process, with what it printed and its exit code."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from connectors.cli.main import outcome


@dataclass(frozen=True, slots=True)
class Ran:
    """What one run of the command left."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.lines]


Shardlog = Callable[..., Ran]


def runner(capsys: pytest.CaptureFixture[str]) -> Shardlog:
    """Return what runs `shardlog` with arguments."""

    def run(*arguments: object) -> Ran:
        code = outcome([str(argument) for argument in arguments])
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return run
