"""What an extra of the package promises, it brings, and who lacks one is told which."""

import re
import tomllib
from importlib.metadata import requires

from storage_core.platform.extras import EXTRA_OF
from tests.tidy.tree import ROOT

OF_SQL = re.compile(r'^([\w-]+).*; extra == "sql"$')
OURS = re.compile(r"^shardlog\[([\w,]+)\]$")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def brought(*extras: str) -> set[str]:
    """Return the distributions that an installation with these extras has."""
    found = {name_of(text) for text in PROJECT["dependencies"]}
    for extra in extras:
        for text in EXTRAS[extra]:
            ours = OURS.match(text)
            found |= brought(*ours[1].split(",")) if ours else {name_of(text)}
    return found


def name_of(text: str) -> str:
    """Return the distribution that a requirement names."""
    return re.split(r"[^\w-]", text)[0]


def test_client_brings_pyarrow_and_numpy_alone() -> None:
    assert brought() == {"numpy", "pyarrow"}


def test_spark_extra_brings_what_frames_of_spark_need() -> None:
    needed = {match[1] for text in requires("pyspark") or () if (match := OF_SQL.match(text))}
    assert needed
    assert needed <= brought("spark")


def test_sql_extra_brings_duckdb_and_what_it_reads_files_by() -> None:
    assert {"duckdb", "fsspec", "rocksdict"} <= brought("sql")


def test_extra_of_all_brings_what_every_other_does() -> None:
    assert brought("all") == brought(*EXTRAS)


def test_each_library_of_an_extra_is_told_with_one_that_brings_it() -> None:
    of_extras = {name.replace("-", "_") for name in brought(*EXTRAS) - brought()}
    assert {*EXTRA_OF} == of_extras
    for library, extra in EXTRA_OF.items():
        assert library in {name.replace("-", "_") for name in brought(extra)}
