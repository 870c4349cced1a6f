"""Whatever CC is, shardlog can be installed."""

import importlib
import shutil
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from connectors.kafka.native_library import NativeLibrary, Refusal, load
from tests.tidy.tree import ROOT

INTERFACE = "hatchling.builders.hooks.plugin.interface"


@pytest.fixture
def build(monkeypatch, tmp_path):
    """The build of the library in a copy of its sources."""
    # Hatchling is installed only where wheels are built.
    interface: Any = ModuleType(INTERFACE)
    interface.BuildHookInterface = list
    monkeypatch.setitem(sys.modules, INTERFACE, interface)
    parent = INTERFACE.rpartition(".")[0]
    while parent:
        monkeypatch.setitem(sys.modules, parent, ModuleType(parent))
        parent = parent.rpartition(".")[0]
    hook = importlib.import_module("hatch_build")
    native = tmp_path / hook.NATIVE
    native.mkdir(parents=True)
    for source in (ROOT / hook.NATIVE).glob("*.[ch]"):
        (native / source.name).write_bytes(source.read_bytes())

    def compiled(command):
        monkeypatch.setenv("CC", command)
        return hook.compiled(tmp_path), tmp_path / hook.LIBRARY

    return compiled


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("", "there is no C compiler '' in PATH"),
        ("'gcc", "CC is no command: No closing quotation"),
        ("true", "true failed: it made nothing"),
    ],
)
def test_compiler_that_makes_nothing_is_told_in_one_line(build, command, problem):
    reason, library = build(command)
    assert reason == problem
    assert not library.exists()


def test_compiler_that_cannot_be_run_is_told_in_one_line(build, tmp_path):
    program = tmp_path / "cc"
    program.write_bytes(b"\x7fELF")
    program.chmod(0o755)
    reason, library = build(str(program))
    assert reason == f"{program} cannot be run here: [Errno 8] Exec format error: '{program}'"
    assert not library.exists()


def test_compiler_with_its_options_makes_the_library(build):
    if isinstance(load(), NativeLibrary):
        reason, library = build("cc -g0")
        assert reason is None
        assert isinstance(load(library), NativeLibrary)
    else:
        pytest.skip("there is no C compiler")


def test_library_of_sources_that_have_changed_since_is_told(build, tmp_path):
    if isinstance(load(), Refusal):
        pytest.skip("there is no C compiler")
    (header,) = tmp_path.rglob("fetch.h")
    header.write_text(header.read_text().replace("#define ABI ", "#define ABI 1000"))
    loaded = load(build("cc")[1])
    assert loaded == Refusal("the compiled library is of another version; install shardlog again")


@pytest.mark.skipif(shutil.which("make") is None, reason="there is no make")
def test_setup_makes_the_library_though_uv_has_made_it_before():
    ran = subprocess.run(
        ["make", "--dry-run", "--always-make", "setup"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    syncs = [line for line in ran.stdout.splitlines() if "sync --frozen" in line]
    assert syncs
    assert all("--reinstall-package shardlog" in line for line in syncs)
