"""docs/LAKE.md runs: its programs in their order, over the table that the first one makes."""

import re

from deltalake import DeltaTable

from storage_core import Stream, StreamOptions
from storage_core.lake import publish_stream
from tests.tidy.test_readme import fenced, page, run, snippets

PAGE = "docs/LAKE.md"
ENGINES = ("deltalake", "pyarrow", "polars", "duckdb")
TYPES = ("byte", "short", "integer", "long")


def test_programs_of_the_page_run_and_print_what_it_says(tmp_path) -> None:
    programs = snippets(PAGE)
    assert all(
        any(f"import {name}" in each or f"from {name}" in each for each in programs)
        for name in ENGINES
    )
    (printed,) = fenced(page(PAGE), "text")
    assert run("\n".join(programs), tmp_path) == printed


def test_page_names_the_type_of_each_column_of_numbers_of_the_log(tmp_path) -> None:
    options = StreamOptions(shards=1, lake=str(tmp_path / "lake"))
    with Stream.create(tmp_path / "log", "readings", options) as stream:
        stream.append(1, 2, b"warm")
        stream.commit()
        stream.seal()
    publish_stream(tmp_path / "log", "readings")
    columns = DeltaTable(tmp_path / "lake").schema().fields
    named = re.findall(r"^\| (`.*`) \| (\w+)", page(PAGE).partition("## Columns")[2], re.MULTILINE)
    types = {name: kind for names, kind in named for name in re.findall(r"`(\w+)`", names)}
    stored = {each.name: getattr(each.type, "type", None) for each in columns}
    numbers = {name: kind for name, kind in stored.items() if kind in TYPES}
    assert numbers == {name: kind for name, kind in types.items() if kind in TYPES}
