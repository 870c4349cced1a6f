"""The examples in the docstrings of `Stream` and `StreamReader` run, and print what they say.

Each runs alone. It finds a root, and in it the stream "rides" of four shards, open as `stream` and
as `reader`, with one row of id 7 that is committed.
"""

import doctest
import importlib
from typing import Any

import pyarrow as pa
import pytest

CALLS_SHOWN = (
    "Stream",
    "Stream.append_batch",
    "Stream.attachments",
    "Stream.commit",
    "Stream.compact",
    "Stream.expire",
    "Stream.first_committed_ms",
    "Stream.latest",
    "Stream.maintain",
    "Stream.read",
    "Stream.seal",
    "Stream.transaction",
    "Stream.trim",
    "StreamReader",
    "StreamReader.latest",
    "StreamReader.read",
    "StreamReader.refresh",
    "StreamReader.wait",
)


@pytest.fixture(scope="module")
def log() -> Any:
    """The log; imported here, so that tests of its imports run also while they go in a circle."""
    return importlib.import_module("storage_core")


@pytest.fixture(scope="module")
def examples(log: Any) -> dict[str, doctest.DocTest]:
    """What docstrings show, by the call; inherited calls with the class that was asked."""
    parser = doctest.DocTestParser()
    docstrings = {}
    for class_ in (log.Stream, log.StreamReader):
        names = {class_.__name__: class_.__doc__}
        names |= {
            f"{class_.__name__}.{name}": getattr(class_, name).__doc__ for name in dir(class_)
        }
        for name, text in names.items():
            example = parser.get_doctest(text or "", {}, name, None, None)
            if example.examples:
                docstrings[name] = example
    return docstrings


@pytest.mark.parametrize("call", CALLS_SHOWN)
def test_example_prints_what_it_says(call, examples, log, tmp_path):
    example = examples[call]
    with log.Stream.create(tmp_path, "rides", log.StreamOptions(shards=4)) as stream:
        stream.append(1_700_000_000_000, 7, b"begin")
        stream.commit()
        with log.StreamReader.open(tmp_path, "rides") as reader:
            names = {name: getattr(log, name) for name in log.__all__}
            example.globs |= names | {"root": tmp_path, "pa": pa}
            example.globs |= {"stream": stream, "reader": reader}
            output: list[str] = []
            doctest.DocTestRunner().run(example, out=output.append)
    assert output == []


def test_examples_are_those_that_run(examples):
    assert sorted(examples) == sorted(CALLS_SHOWN)
