"""Compiles the library of `connectors/kafka/native` into a wheel, where there is a compiler.

It has nothing of Python's in it, so one wheel is for every Python of a platform. Without a
compiler the wheel is pure, and records are fetched without the library: slower, else the same.
"""

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

NATIVE = Path("connectors", "kafka", "native")
LIBRARY = NATIVE / "fetch.so"
FLAGS = ["-std=c11", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread"]


class NativeBuildHook(BuildHookInterface[Any]):
    """The hook that hatchling calls for each wheel, editable ones too."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the library and make the wheel one of this platform; or tell why not."""
        root = Path(self.root)
        (root / LIBRARY).unlink(missing_ok=True)
        problem = compiled(root)
        if problem is not None:
            self.app.display_warning(f"shardlog is built without its compiled library: {problem}")
            return
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"py3-none-{platform}"
        if version != "editable":
            build_data["force_include"][os.fspath(root / LIBRARY)] = LIBRARY.as_posix()


def compiled(root: Path) -> str | None:
    """Compile the library in its place; return what kept that from being done."""
    if not sys.platform.startswith("linux"):
        return f"it is made for Linux, this is {sys.platform}"
    try:
        compiler, *options = shlex.split(os.environ.get("CC", "cc")) or [""]
    except ValueError as error:
        return f"CC is no command: {error}"
    if shutil.which(compiler) is None:
        return f"there is no C compiler {compiler!r} in PATH"
    sources = sorted(map(os.fspath, (root / NATIVE).glob("*.c")))
    # Beside its place, so that whoever has it loaded keeps what it has.
    made = root / LIBRARY.with_suffix(f".{os.getpid()}.part")
    try:
        done = subprocess.run(
            [compiler, *options, *FLAGS, *sources, "-o", os.fspath(made), "-ldl"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
        if done.returncode or not made.exists():
            said = done.stderr.strip() or done.stdout.strip()
            return f"{compiler} failed: {said or 'it made nothing'}"
        made.replace(root / LIBRARY)
    except OSError as error:
        return f"{compiler} cannot be run here: {error}"
    finally:
        made.unlink(missing_ok=True)
    return None
