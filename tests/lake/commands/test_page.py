"""docs/LAKE.md runs: its programs in their order, over the table that the first one makes."""

from tests.tidy.test_readme import fenced, page, run, snippets

PAGE = "docs/LAKE.md"
ENGINES = ("deltalake", "pyarrow", "polars", "duckdb")


def test_programs_of_the_page_run_and_print_what_it_says(tmp_path) -> None:
    programs = snippets(PAGE)
    assert all(
        any(f"import {name}" in each or f"from {name}" in each for each in programs)
        for name in ENGINES
    )
    (printed,) = fenced(page(PAGE), "text")
    assert run("\n".join(programs), tmp_path) == printed
