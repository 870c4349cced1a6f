"""The command: an experiment that fails is a line, and takes no other's figures with it."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest

from bench.__main__ import main
from bench.measure import Contestant, Experiment, Row, VoidError


def experiment(name: str, run: Contestant) -> Experiment:
    """An experiment of one row whose contestant does this."""

    @contextmanager
    def contestants(_path: Path) -> Iterator[Mapping[str, Contestant]]:
        yield {"ours": run}

    row = Row(f"{name}/rate", "a rate", ("ours", "rate"))
    return Experiment(name, (row,), contestants, rounds_max=1, bytes_needed=0)


def failing(error: BaseException) -> Callable[[], Mapping[str, float]]:
    def run() -> Mapping[str, float]:
        raise error

    return run


def sound(name: str) -> Experiment:
    return experiment(name, lambda: {"rate": 5.0})


def test_experiment_that_raises_is_a_line_and_the_others_have_their_rows(tmp_path, capsys):
    broken = experiment("broken", failing(RuntimeError("the child ended\nKeyError: 'x'\n  ^^^")))
    figures = tmp_path / "figures.json"
    arguments = ["--directory", str(tmp_path), "--json", str(figures)]
    assert main(arguments, (sound("first"), broken, sound("last"))) == 1
    printed = capsys.readouterr()
    assert ["first/rate" in printed.out, "last/rate" in printed.out] == [True, True]
    assert "failed: broken: KeyError: 'x'" in printed.err.splitlines()
    assert "test_command.py" in printed.err
    rows = json.loads(figures.read_text())["rows"]
    assert [row["row"] for row in rows] == ["first/rate", "last/rate"]


def test_experiment_that_cannot_be_made_ready_is_a_line_too(tmp_path, capsys):
    def contestants(_path: Path) -> NoReturn:
        message = "no such program"
        raise OSError(message)

    broken = Experiment("broken", (), contestants, bytes_needed=0)
    assert main(["--directory", str(tmp_path)], (broken, sound("last"))) == 1
    printed = capsys.readouterr()
    assert "last/rate" in printed.out
    assert "failed: broken: OSError: no such program" in printed.err.splitlines()


def test_experiment_without_figures_is_void(tmp_path, capsys):
    void = experiment("void", failing(VoidError("the peer is slow")))
    assert main(["--directory", str(tmp_path)], (void, sound("last"))) == 1
    printed = capsys.readouterr()
    assert ("last/rate" in printed.out, printed.err) == (True, "void: void: the peer is slow\n")


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), SystemExit(143)])
def test_run_that_is_stopped_shows_what_it_has(tmp_path, capsys, stop):
    stopped = experiment("stopped", failing(stop))
    with pytest.raises(type(stop)):
        main(["--directory", str(tmp_path)], (sound("first"), stopped, sound("last")))
    printed = capsys.readouterr()
    assert ("first/rate" in printed.out, "last/rate" in printed.out) == (True, False)
    assert list(tmp_path.iterdir()) == []
