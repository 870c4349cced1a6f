"""The Spark programs of examples/ print what their page says, in the session of all."""

import pytest

from tests.example_programs import OF_SPARK, expect, run_here


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("program", OF_SPARK)
def test_program_prints_what_its_page_says(program, capsys):
    run_here(program)
    expect(program, capsys.readouterr().out)
