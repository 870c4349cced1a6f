"""Finds a JVM that is new enough: $JAVA_HOME, then PATH, then where Linux distributions put it."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from storage_core import InvalidRequestError

JAVA_MIN: Final = 17
# For a JVM that ends soon: code is compiled once, and memory collected by one thread. Such a broker
# starts for three fifths of the processor time; one that runs for long is slower.
SHORT_LIVED: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")

# The first start on a machine whose disk is cold and busy.
_ANSWER_MAX_S: Final = 120.0
_INSTALLED: Final = Path("/usr/lib/jvm")
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_ADVICE: Final = (
    "install one (Debian: apt-get install openjdk-17-jre-headless) or set JAVA_HOME to it"
)


def find_java(installed: Path = _INSTALLED) -> Path:
    """Return the first `java` that is new enough.

    Raises:
        InvalidRequestError: There is none; the message says what was found and how to get one.
    """
    home, on_path = os.environ.get("JAVA_HOME"), shutil.which("java")
    candidates = [Path(home) / "bin/java"] if home else []
    candidates += [Path(on_path).absolute()] if on_path else []
    candidates += sorted(installed.glob("*/bin/java"), reverse=True)
    too_old = []
    for java in candidates:
        version = java_version(java)
        if version is not None and version >= JAVA_MIN:
            return java
        too_old.append(f"{java} is {'no JVM' if version is None else f'version {version}'}")
    versions = f"; {', '.join(too_old)}" if too_old else ""
    message = f"a JVM of version {JAVA_MIN} or later is missing{versions}: {_ADVICE}"
    raise InvalidRequestError(message)


def java_version(java: Path) -> int | None:
    """Return the major version that a `java` says it is, or None."""
    try:
        answer = subprocess.run(  # noqa: S603 - the JVM that we are about to run
            [java, "-version"], capture_output=True, text=True, timeout=_ANSWER_MAX_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    return int(match[1]) if match else None
