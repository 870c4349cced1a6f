"""Fetches a bundle with the Apache Ivy inside PySpark's wheel; PySpark itself is not imported.

Ivy asks Maven Central unless $SHARDLOG_IVY_SETTINGS names an Ivy settings file, for those who
have a mirror.
"""

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from connectors.dev_stack.bundles import Bundle
from connectors.dev_stack.child import last_telling_line, run_guarded
from connectors.dev_stack.java import find_java
from connectors.dev_stack.process import Process
from storage_core import InvalidRequestError, UnavailableError

FETCH_MAX_S: Final = 900.0

_MAIN_CLASS: Final = "org.apache.ivy.Main"
_PACKAGE: Final = "pyspark"
_PATTERN: Final = "[artifact]-[revision](-[classifier]).[ext]"


def ivy_jar(package: str = _PACKAGE) -> Path:
    """Return Ivy's jar in PySpark's wheel.

    Raises:
        InvalidRequestError: PySpark is not installed.
    """
    found = importlib.util.find_spec(package)
    for folder in (found.submodule_search_locations or []) if found else []:
        for jar in sorted(Path(folder).glob("jars/ivy-*.jar")):
            return jar
    message = f"{package}, whose Ivy fetches the broker, is missing: pip install 'shardlog[spark]'"
    raise InvalidRequestError(message)


def retrieve(bundle: Bundle, directory: Path, on_tick: Callable[[], None]) -> Path:
    """Fetch a bundle's artifacts.

    Args:
        bundle: What to fetch.
        directory: An empty directory to work in; all there may be thrown away afterwards.
        on_tick: Called a few times a second while it takes.

    Returns:
        The directory inside that holds the artifacts and nothing else.

    Raises:
        UnavailableError: Something could not be fetched, or not in time.
        InvalidRequestError: PySpark or a JVM is missing.
    """
    jar, java = ivy_jar(), find_java()
    asked, found, log = directory / "ivy.xml", directory / "found", directory / "ivy.log"
    asked.write_text(bundle.ivy_file, encoding="utf-8")
    settings = os.environ.get("SHARDLOG_IVY_SETTINGS")
    command = [
        *(str(java), "-Xmx256m", "-XX:+UseSerialGC", "-cp", str(jar), _MAIN_CLASS),
        *(("-settings", settings) if settings else ()),
        *("-cache", str(directory / "cache"), "-ivy", str(asked), "-confs", "default"),
        *("-retrieve", str(found / _PATTERN), "-types", *bundle.types),
    ]
    run_guarded(
        command,
        log=log,
        scratch=directory,
        owner=Process.current(),
        timeout_s=FETCH_MAX_S,
        on_tick=on_tick,
    )
    files = len(list(found.glob("*")))
    if files != bundle.files:
        told = last_telling_line(log)
        message = f"fetched {files} of {bundle.files} files of {bundle.name}: {told}"
        raise UnavailableError(message)
    return found
