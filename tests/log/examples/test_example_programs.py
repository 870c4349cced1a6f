"""The programs of examples/ that need neither Kafka nor Spark print what their page says."""

import pytest

from tests.example_programs import PLAIN, expect, run_as_people_do, run_here


@pytest.mark.parametrize("program", PLAIN)
def test_program_prints_what_its_page_says(program, capsys):
    run_here(program)
    expect(program, capsys.readouterr().out)


def test_program_runs_as_its_head_says(tmp_path):
    expect("read.py", run_as_people_do("read.py", tmp_path))
    assert list(tmp_path.iterdir()) == []
