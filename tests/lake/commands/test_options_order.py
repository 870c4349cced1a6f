"""Goal: options of a store count in the order of docs/LAKE.md, whoever asks.

Method: one place has an endpoint, another one a word that is none, which is refused as soon as it
counts. The stream's parts are in the lake alone, so that whoever reads needs the options.
"""

import pytest

from connectors.cli.exit_codes import EXIT_USAGE
from storage_core import InvalidRequestError, Stream, StreamOptions
from storage_core.lake import LAKE_OPTIONS_VARIABLE, hand_down_options, publish_stream
from tests.lake.absent.away import move_away
from tests.lake.beginning.beginning_lab import NAME

ENDPOINT = "AWS_ENDPOINT_URL"
RIGHT, WRONG = "http://127.0.0.1:9000", "nowhere"
COMPLAINT = f"the option '{ENDPOINT}' of the lake is no URL"
TELLING = (("lake", "status"), ("lake", "publish"), ("lake", "check"))
READING = (("verify",), ("verify", "--lake"), ("read",))


@pytest.fixture
def root(tmp_path):
    """Return a root whose stream has parts that only the lake has."""
    options = StreamOptions(shards=1, lake=str(tmp_path / "lake"))
    with Stream.create(tmp_path / "log", NAME, options) as stream:
        stream.append(1, 2, b"warm")
        stream.commit()
        stream.seal()
        publish_stream(tmp_path / "log", NAME)
        stream.trim()
        move_away(stream, tmp_path / "lake")
    return tmp_path / "log"


@pytest.fixture
def file(tmp_path):
    def written(value):
        path = tmp_path / f"{value[:4]}.toml"
        path.write_text(f'{ENDPOINT} = "{value}"')
        return path

    return written


@pytest.fixture
def environment(file, monkeypatch):
    """Let the environment have a single option, and name a file of another one."""

    def have(named, single=None):
        variables = {LAKE_OPTIONS_VARIABLE: str(file(named))}
        hand_down_options({} if single is None else {ENDPOINT: single}, variables)
        for name, text in variables.items():
            monkeypatch.setenv(name, text)

    return have


@pytest.fixture
def run(shardlog, root):
    def ran(command, *options):
        verb, *more = command
        named = (verb, more.pop(0)) if verb == "lake" else (verb,)
        return shardlog(*named, root, NAME, *more, *options)

    return ran


def expect(ran, *, is_right):
    if is_right:
        assert (ran.code, ran.err) == (0, "")
    else:
        assert (ran.code, ran.err.count("\n")) == (EXIT_USAGE, 1)
        assert COMPLAINT in ran.err


def names_of(command):
    return " ".join(command)


@pytest.mark.parametrize(("single", "named"), [(RIGHT, WRONG), (WRONG, RIGHT)])
@pytest.mark.parametrize("command", [*TELLING, *READING], ids=names_of)
def test_single_variable_stands_above_the_file_that_the_environment_names(
    run, environment, command, single, named
):
    environment(named, single)
    expect(run(command), is_right=single == RIGHT)


@pytest.mark.parametrize("named", [RIGHT, WRONG])
@pytest.mark.parametrize("command", [*TELLING, *READING], ids=names_of)
def test_file_that_the_environment_names_counts_without_a_variable(
    run, environment, command, named
):
    environment(named)
    expect(run(command), is_right=named == RIGHT)


@pytest.mark.parametrize("explicit", [RIGHT, WRONG])
@pytest.mark.parametrize("command", TELLING, ids=names_of)
def test_file_that_a_command_is_told_stands_above_the_environment(
    run, file, environment, command, explicit
):
    other = WRONG if explicit == RIGHT else RIGHT
    environment(other, other)
    expect(run(command, "--lake-options", file(explicit)), is_right=explicit == RIGHT)


def test_python_takes_the_same_order(root, environment):
    environment(WRONG, RIGHT)
    assert publish_stream(root, NAME).rows == 0
    environment(RIGHT, WRONG)
    with pytest.raises(InvalidRequestError, match=COMPLAINT):
        publish_stream(root, NAME)


def test_help_names_the_variable(shardlog):
    assert LAKE_OPTIONS_VARIABLE in shardlog("lake", "status", "--help").out
