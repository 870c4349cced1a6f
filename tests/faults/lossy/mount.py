"""Mounts a lossy file system in a child process and speaks to it.

`LossyMount` is a context manager; `path` is where the file system is seen. Where FUSE is missing,
`missing_fuse()` says why in one line.
"""

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.waiting import WAIT_MAX_S

REPOSITORY = Path(__file__).parents[3]
UNCACHED = "uncached"


def missing_fuse() -> str | None:
    """Say what is missing to mount a file system, or None."""
    if not Path("/dev/fuse").exists():
        return "no /dev/fuse"
    if shutil.which("fusermount3") is None:
        return "no fusermount3 (Debian package fuse3)"
    if importlib.util.find_spec("mfusepy") is None:
        return "no mfusepy (Python package)"
    return None


def unmount(mountpoint: str) -> None:
    """Take the mount away, even while something still uses it."""
    subprocess.run(["fusermount3", "-u", "-z", "-q", mountpoint], check=False)


class LossyMount:
    """One mounted lossy file system; see `daemon` for what each command does.

    `path` is a link beside the mount to the folder that shows the disk as it is by now.
    """

    def __init__(self, path: Path, *, is_cached: bool = True) -> None:
        self.path = path
        self._is_cached = is_cached
        self._mountpoint = path.with_name(path.name + ".mount")
        self._log_path = path.with_name(path.name + ".log")

    def __enter__(self) -> Self:
        self._mountpoint.mkdir(parents=True, exist_ok=True)
        with self._log_path.open("w", encoding="utf-8") as log:
            how = [] if self._is_cached else [UNCACHED]
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.lossy.daemon", str(self._mountpoint), *how],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=REPOSITORY,
                text=True,
            )
        self._answer()
        self.format()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._process.poll() is None:
            self.order(hold_syncs=False, sync_delay_s=0.0)
        unmount(str(self._mountpoint))
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        try:
            self._process.wait(WAIT_MAX_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            log = self._log_path.read_text(encoding="utf-8")
            message = f"the lossy file system ended with {self._process.wait()}: {log}"
            raise RuntimeError(message)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def order(self, **command: object) -> dict[str, Any]:
        """Give one command and return the state after it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def format(self) -> None:
        """Begin with an empty disk without faults."""
        self._show(self.order(format=True))

    def _show(self, state: dict[str, Any]) -> None:
        self.path.unlink(missing_ok=True)
        self.path.symlink_to(self._mountpoint / str(state["epoch"]))

    def cut_power(self, survivors: int | str | None = None) -> None:
        """Lose all that is unsynced; with a number chance lets some of it survive."""
        self.order(cut=survivors)

    def restore_power(self) -> None:
        """Show what is left, with all other faults gone."""
        self.order(ignore_syncs=False, hold_syncs=False, sync_delay_s=0.0)
        self.order(syncs_until_failure=None)
        self.order(bytes_left=None)
        self._show(self.order(up=True))

    def cut_and_restore(self, survivors: int | str | None = None) -> None:
        """Lose power and have it back, with nobody at work in between."""
        self.cut_power(survivors)
        self.restore_power()

    def wait_until(self, condition: str, timeout_s: float = WAIT_MAX_S) -> bool:
        """Wait until power is `down` or a sync is `held`; say whether it is."""
        state = self.order(wait_for=condition, timeout_s=timeout_s)
        return bool(state["is_down"] if condition == "down" else state["held"])
