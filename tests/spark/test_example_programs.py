"""The Spark programs of examples/, and the Spark snippet of README.md, in the session of all."""

from pathlib import Path

import pytest

from storage_core import Stream, StreamReader
from tests.example_programs import OF_SPARK, expect, run_here
from tests.tidy.test_readme import fenced, readme, section

SHOWN_PLACE = Path("/tmp")  # noqa: S108 - what the page says


@pytest.mark.usefixtures("lab")
@pytest.mark.parametrize("program", OF_SPARK)
def test_program_prints_what_its_page_says(program, capsys):
    run_here(program)
    expect(program, capsys.readouterr().out)


def test_snippet_of_the_readme_copies_late_rows(spark, tmp_path):
    root = tmp_path / "log"
    with Stream.create(root, "telemetry") as stream:
        for primary in (1000, 2000, 1500):
            stream.append(primary, 7, b"")
    (snippet,) = fenced(section(readme(), "Spark"), "python")
    assert f'"{SHOWN_PLACE}/log"' in snippet
    snippet = snippet.replace(f"{SHOWN_PLACE}/", f"{tmp_path}/")
    exec(snippet, {"spark": spark})  # noqa: S102 - the page's own
    with StreamReader.open(root, "late") as reader:
        assert reader.read()["primary"].to_pylist() == [1500]
