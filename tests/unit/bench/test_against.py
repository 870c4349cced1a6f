"""Two checkouts by turns: who runs when, and what counts as worse. The checkouts are made up."""

import json
from pathlib import Path

import pytest

from bench.against import Comparison, compare
from bench.measure import Experiment, Row, VoidError

RATE = Row("one/rate", "a rate", ("ours", "rate"))
LATENCY = Row("one/p50", "a latency", ("ours", "p50"), sense="at most")
PEER = Row("one/peer", "a peer's rate", ("peer", "rate"), sense=None)
ADDED = Row("one/added", "what is added", ("ours", "s"), ("peer", "s"), compared="difference")
# Writes the figures that lie in its directory where it is told to, and that it ran.
COMMAND = """
import json, sys
from pathlib import Path
told = dict(argument.split("=") for argument in sys.argv[1:])
with Path("../turns").open("a") as turns:
    turns.write(Path.cwd().name + " ")
rows = json.loads(Path("figures.json").read_text())[told["--rows"]]
Path(told["--json"]).write_text(json.dumps({"rows": rows}))
sys.exit("beyond the limit")
"""


def checkout(place: Path, **figures: tuple[float, float]) -> Path:
    """Make a checkout whose rows have these figures, as they are judged and what is ours."""
    (place / "bench").mkdir(parents=True)
    (place / "bench" / "__init__.py").touch()
    (place / "bench" / "__main__.py").write_text(COMMAND)
    rows = [
        {"row": f"one/{name}", "median": median, "ours": ours}
        for name, (median, ours) in figures.items()
    ]
    (place / "figures.json").write_text(json.dumps({"one": rows}))
    return place


def compared(
    other: Path, this: Path, *rows: Row, experiment: str = "one", pairs: int = 1
) -> list[Comparison]:
    """Compare the rows of an experiment, by default in one pair of turns."""
    wanted = Experiment(experiment, rows, contestants=lambda _path: pytest.fail("not run here"))
    return list(compare(wanted, (other, this), this, pairs, lambda _text: None))


@pytest.mark.parametrize(
    ("row", "this", "verdict"),
    [
        (RATE, (80, 85, 90, 88, 84), "worse"),
        (LATENCY, (80, 85, 90, 88, 84), "better"),
        (PEER, (80, 85, 90, 88, 84), "reported"),
        (LATENCY, (120, 115, 110, 112, 116), "worse"),
        (RATE, (120, 115, 110, 112, 116), "better"),
        # As far apart from each other as from the other checkout's.
        (RATE, (80, 85, 112, 88, 84), "same"),
        (RATE, (98.1, 98.2, 98.3, 98.2, 98.1), "same"),
        (RATE, (97.1, 97.2, 97.3, 97.2, 97.1), "worse"),
    ],
)
def test_row_is_worse_only_beyond_its_own_noise(
    row: Row, this: tuple[float, ...], verdict: str
) -> None:
    assert Comparison(row, (100.0,) * 5, this).verdict == verdict


def test_checkouts_take_turns_and_every_second_pair_is_the_other_way_round(tmp_path: Path) -> None:
    other = checkout(tmp_path / "other", rate=(100, 100))
    this = checkout(tmp_path / "this", rate=(50, 100))
    (comparison,) = compared(other, this, RATE, pairs=3)
    assert (tmp_path / "turns").read_text() == "other this this other other this "
    assert comparison == Comparison(RATE, (100, 100, 100), (50, 50, 50))
    assert comparison.cells()[3:] == ("0.500", "0.500 - 0.500 (3)", "worse")


def test_row_that_only_one_checkout_has_is_left_out(tmp_path: Path) -> None:
    other = checkout(tmp_path / "other", rate=(1, 1), gone=(1, 1))
    this = checkout(tmp_path / "this", rate=(1, 1), p50=(1, 1))
    assert [found.row for found in compared(other, this, RATE, LATENCY)] == [RATE]


def test_checkouts_without_a_row_in_common_are_void(tmp_path: Path) -> None:
    other = checkout(tmp_path / "other", gone=(1, 1))
    this = checkout(tmp_path / "this", rate=(1, 1))
    with pytest.raises(VoidError, match=r"no row of it is in .*/other, which has one/gone"):
        compared(other, this, RATE)


def test_difference_is_compared_by_what_it_is_a_part_of(tmp_path: Path) -> None:
    other = checkout(tmp_path / "other", added=(-0.01, 0.2))
    this = checkout(tmp_path / "this", added=(0.0, 0.21))
    (row,) = compared(other, this, ADDED)
    assert (row.other[0], row.this[0]) == (0.2, 0.21)


def test_directory_without_benchmarks_is_refused(tmp_path: Path) -> None:
    this = checkout(tmp_path / "this", rate=(1, 1))
    with pytest.raises(VoidError, match=f"no benchmarks are in {tmp_path}"):
        compared(tmp_path, this, RATE)


def test_checkout_without_figures_is_void_and_its_last_words_are_told(tmp_path: Path) -> None:
    other, this = checkout(tmp_path / "other"), checkout(tmp_path / "this", rate=(1, 1))
    with pytest.raises(VoidError, match=r"no figures from .*/other: beyond the limit"):
        compared(other, this, RATE)
    with pytest.raises(VoidError, match="KeyError: 'two'"):
        compared(other, this, RATE, experiment="two")
