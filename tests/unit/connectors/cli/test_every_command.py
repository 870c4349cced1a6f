"""What commands have in common: help with an example, and streams that they cannot have."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from connectors.cli.main import app
from connectors.cli.parsing.table import LazyCommand
from storage_core import Stream, StreamOptions, StreamReader

NAME = "orders"
OF_A_STREAM: dict[str, tuple[str, ...]] = {
    "read": (),
    "tail": (),
    "status": (),
    "dlq show": (),
    "verify": (),
    "drop": ("--execute",),
    "expire": ("--execute",),
    "seal": (),
    "compact": (),
    "trim": (),
    "parts": (),
    "export": ("--output=nowhere",),
    "alter": ("sync=interval",),
    "accept-loss": ("--shard=0", "--start=0", "--end=2"),
}
WRITERS = ("verify", "drop", "expire", "seal", "compact", "trim", "alter", "accept-loss")


def commands_of(command: Any, *names: str) -> Iterator[tuple[str, ...]]:
    """Yield the names that lead to each command."""
    command = command.loaded() if isinstance(command, LazyCommand) else command
    below = getattr(command, "commands", None)
    if below is None:
        yield names
        return
    for name, inner in below.items():
        yield from commands_of(inner, *names, name)


@pytest.fixture
def root(tmp_path):
    with Stream.create(tmp_path, NAME, StreamOptions(shards=2)) as stream:
        stream.append(1, 0, b"x")
    return tmp_path


def facts(root):
    with StreamReader.open(root, NAME) as reader:
        return reader.options, reader.stats().records


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("workr", "'worker'"),
        ("list", "'streams'"),
        ("ls", "'streams'"),
        ("query", "'sql'"),
        ("replay", "'dlq replay'"),
        ("pause", "'group pause'"),
        ("unpause", "'group resume'"),
        ("retry", "'group retry'"),
        ("start", "'worker'"),
        ("dev start", "'up'"),
        ("dev stop", "'down'"),
        ("dlq ls", "'list'"),
        ("dlq lst", "'list'"),
        ("help", "`shardlog --help`"),
        ("dlq frobnicate", "`shardlog dlq --help`"),
    ],
)
def test_command_that_is_not_there_is_answered_by_the_one_that_does_it(shardlog, typed, meant):
    ran = shardlog(*typed.split())
    assert (ran.code, ran.out) == (2, "")
    assert meant in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("command", [*commands_of(typer.main.get_command(app))], ids=" ".join)
def test_help_has_a_plain_usage_and_an_example_of_one_line(shardlog, command):
    ran = shardlog(*command, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert re.search(r"\[\[|\.\.\.[\]}]", ran.lines[0]) is None
    (example,) = [one for one in ran.out.split("\n\n") if one.startswith("  Example: ")]
    assert "\n" not in example.strip()
    assert re.search(rf"shardlog {' '.join(command)}\b", example)


@pytest.mark.parametrize("group", [(), ("dev",), ("dlq",), ("schema",)], ids=" ".join)
def test_list_of_commands_says_each_whole_at_80_columns(shardlog, monkeypatch, group):
    monkeypatch.setenv("COLUMNS", "80")
    listed = shardlog(*group, "--help").out.split("Commands:\n")[1].splitlines()
    assert [line for line in listed if line.endswith("...") or len(line) > 80] == []


@pytest.mark.parametrize("command", OF_A_STREAM)
def test_stream_that_is_not_there_is_named(shardlog, root, command):
    ran = shardlog(*command.split(), root, "elsewhere", *OF_A_STREAM[command])
    assert ran.code == 2
    assert "elsewhere" in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("command", WRITERS)
def test_stream_that_a_writer_holds_is_left_alone(shardlog, root, command):
    before = facts(root)
    with Stream.open(root, NAME):
        ran = shardlog(command, root, NAME, *OF_A_STREAM[command])
    assert (ran.code, ran.out) == (3, "")
    assert "another writer holds the shard" in ran.err
    assert "`shardlog group pause`" in ran.err
    assert ran.err.count("\n") == 1
    assert facts(root) == before
