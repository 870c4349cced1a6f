"""The examples in the docstrings of `Stream` and `StreamReader` run, and print what they say.

Each runs alone. It finds a root, and in it the stream "rides" of four shards, open as `stream` and
as `reader`, with one row of id 7 that is committed.
"""

import doctest
from collections.abc import Iterator

import pyarrow as pa
import pytest

import storage_core
from storage_core import Stream, StreamOptions, StreamReader

SHOWN = (Stream, StreamReader)
CALLS_SHOWN = {
    "Stream",
    "Stream.append_batch",
    "Stream.commit",
    "Stream.latest",
    "Stream.read",
    "Stream.transaction",
    "StreamReader",
    "StreamReader.refresh",
    "StreamReader.wait",
}


def examples() -> Iterator[doctest.DocTest]:
    """Yield what docstrings show, inherited calls with the class that was asked."""
    parser = doctest.DocTestParser()
    for shown in SHOWN:
        names = {shown.__name__: shown.__doc__}
        names |= {f"{shown.__name__}.{name}": getattr(shown, name).__doc__ for name in dir(shown)}
        for name, text in names.items():
            found = parser.get_doctest(text or "", {}, name, None, None)
            if found.examples:
                yield found


@pytest.mark.parametrize("example", list(examples()), ids=lambda found: found.name)
def test_example_prints_what_it_says(example, tmp_path):
    with Stream.create(tmp_path, "rides", StreamOptions(shards=4)) as stream:
        stream.append(1_700_000_000_000, 7, b"begin")
        stream.commit()
        with StreamReader.open(tmp_path, "rides") as reader:
            names = {name: getattr(storage_core, name) for name in storage_core.__all__}
            example.globs |= names | {"root": tmp_path, "pa": pa}
            example.globs |= {"stream": stream, "reader": reader}
            told: list[str] = []
            doctest.DocTestRunner().run(example, out=told.append)
    assert told == []


def test_main_calls_have_an_example():
    assert {found.name for found in examples()} >= CALLS_SHOWN
