"""What an extra of the package promises, it brings."""

import re
import tomllib
from importlib.metadata import requires

from tests.tidy.tree import ROOT

OF_SQL = re.compile(r'^([\w-]+).*; extra == "sql"$')


def test_spark_extra_brings_what_frames_of_spark_need() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = [*project["dependencies"], *project["optional-dependencies"]["spark"]]
    brought = {re.split(r"[^\w-]", text)[0] for text in texts}
    needed = {match[1] for text in requires("pyspark") or () if (match := OF_SQL.match(text))}
    assert needed
    assert needed <= brought


def test_sql_extra_brings_duckdb_and_what_it_reads_files_by() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    brought = {re.split(r"[^\w-]", text)[0] for text in project["optional-dependencies"]["sql"]}
    assert {"duckdb", "fsspec"} <= brought
