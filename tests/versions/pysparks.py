"""Packages of other versions than uv.lock has: each PySpark that is supported, most of all.

    place = pyspark_of("4.0.5", tell)    ~/.cache/shardlog/pyspark/4.0.5, fetched when first asked
    ended = run_tests(place, ["tests/spark"])

A version is one package without what it needs, laid before the packages of `.venv` (`PYTHONPATH`).
It comes by uv, 440 MB each, and only what is unpacked stays. One that was not fetched whole is
fetched anew; those that were stay.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

from connectors.devtools.fetch import locked
from connectors.devtools.places import jars_directory
from storage_core import SystemClock
from tests.tidy.tree import ROOT

FLOOR: Final = "4.0.1"
# The newest of each line but the last, which is in uv.lock.
NEWEST: Final = ("4.0.5", "4.1.4", "4.2.1")
# It is read without a pause so long, and a download that stops is tried again.
_SILENT_MAX_S: Final = 600
_TRIES: Final = 10
# A hang, and no download: at 0.1 MB a second one takes seventy minutes.
_FETCH_MAX_S: Final = 3 * 3600.0
_LOOK_EVERY_S: Final = 1.0
_PACKED_MB: Final = 440
_TELL_EVERY_MB: Final = 100
_MEGABYTE: Final = 1_000_000
_CLOCK: Final = SystemClock()
# PySpark before 4.3 leaves sockets to the garbage collector.
_WARNINGS: Final = (
    *("-W", "ignore::ResourceWarning"),
    *("-W", "ignore::pytest.PytestUnraisableExceptionWarning"),
)

Tell = Callable[[str], None]


class FetchError(Exception):
    """A version cannot be had; the text says why."""


def pyspark_of(version: str, tell: Tell) -> Path:
    """Return the directory that a version lies in, which is fetched if need be.

    Raises:
        FetchError: It cannot be had.
    """
    place = jars_directory().parent / "pyspark" / version
    return packages_of([f"pyspark=={version}"], place, _PACKED_MB, tell)


def packages_of(packages: Sequence[str], place: Path, megabytes: int, tell: Tell) -> Path:
    """Return the directory that packages lie in, which are fetched if need be.

    Args:
        packages: Each with its version, as `pyspark==4.1.4`; without what they need.
        place: The directory.
        megabytes: How much is fetched, roughly.
        tell: Called with what to tell while it takes.

    Raises:
        FetchError: They cannot be had.
    """
    if not place.is_dir():
        # Whoever holds the lock may be fetching.
        with locked(place.with_name(f"{place.name}.lock"), f"fetching {place}", _FETCH_MAX_S):
            if not place.is_dir():
                _fetch(packages, place, megabytes, tell)
    return place


def run_tests(place: Path, tests: Sequence[str], processes: int = 0) -> int:
    """Run tests in a process of their own on the PySpark of a place; return its exit code."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", str(processes)]
    command += ["--dist", "loadgroup"] if processes else ["-p", "no:randomly"]
    return subprocess.run(
        [*command, *_WARNINGS, *tests], cwd=ROOT, env=environment(place), check=False
    ).returncode


def environment(place: Path) -> dict[str, str]:
    """Return the variables of a process that finds the PySpark of a place before all others."""
    paths = [str(place), *filter(None, [os.environ.get("PYTHONPATH")])]
    left_out = ("SPARK_HOME", "SHARDLOG_TEST_FORKS")
    # What pytest tells its own processes is not for one that runs in a test.
    variables = {
        name: value
        for name, value in os.environ.items()
        if name not in left_out and not name.startswith("PYTEST_")
    }
    return {**variables, "PYTHONPATH": os.pathsep.join(paths)}


def _fetch(packages: Sequence[str], place: Path, megabytes: int, tell: Tell) -> None:
    draft, cache = (place.with_name(f"{place.name}.{end}") for end in ("new", "fetched"))
    for left in (draft, cache):
        shutil.rmtree(left, ignore_errors=True)
    uv = Path(sys.executable).with_name("uv")
    command = [
        *(str(uv), "pip", "install", "--quiet", "--python", sys.executable, "--no-deps"),
        *("--cache-dir", str(cache), "--target", str(draft), *packages),
    ]
    settings = {"UV_HTTP_TIMEOUT": str(_SILENT_MAX_S), "UV_HTTP_RETRIES": str(_TRIES)}
    named = ", ".join(packages)
    tell(f"{named}: {megabytes} MB are fetched into {place}")
    try:
        with subprocess.Popen(
            command, env={**os.environ, **settings}, stderr=subprocess.PIPE, text=True
        ) as fetching:
            try:
                report = partial(_tell_done, tell, named)
                _await_end(fetching, cache, megabytes, report)
            except BaseException:
                fetching.kill()
                raise
            said = "" if fetching.stderr is None else fetching.stderr.read()
        if fetching.returncode != 0:
            message = f"{named} cannot be fetched: {said.strip()}"
            raise FetchError(message)
        # Links of commands, which belong to other versions.
        shutil.rmtree(draft / "bin", ignore_errors=True)
        draft.rename(place)
    finally:
        for left in (draft, cache):
            shutil.rmtree(left, ignore_errors=True)


def _tell_done(tell: Tell, named: str, megabytes: int) -> None:
    tell(f"{megabytes} MB of {named}")


def _await_end(
    fetching: "subprocess.Popen[str]", cache: Path, megabytes: int, tell: Callable[[int], None]
) -> None:
    reported, deadline = 0, _CLOCK.monotonic_s() + _FETCH_MAX_S
    while fetching.poll() is None:
        with suppress(subprocess.TimeoutExpired):
            fetching.wait(_LOOK_EVERY_S)
        done = _size_of(cache) // _MEGABYTE // _TELL_EVERY_MB * _TELL_EVERY_MB
        # Then it is unpacked, which takes as much again.
        if reported < done < megabytes:
            reported = done
            tell(done)
        if _CLOCK.monotonic_s() > deadline:
            fetching.kill()


def _size_of(place: Path) -> int:
    size = 0
    for folder, _, names in os.walk(place):
        for name in names:
            # It may be renamed meanwhile.
            with suppress(OSError):
                size += Path(folder, name).lstat().st_size
    return size
