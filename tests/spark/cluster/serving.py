"""`shardlog serve` as a process, which is killed and comes back at its address."""

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Final, Self

_PROGRAM: Final = str(Path(sys.executable).with_name("shardlog"))
_LISTENS: Final = re.compile(r"listening on \w+://(\S+), root ")


class ServeCommand:
    """A server over a root."""

    def __init__(self, root: Path, *options: str) -> None:
        """Begin with nothing that runs."""
        self.root = root
        self.address = "127.0.0.1:0"
        self._options = options
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it; return when it listens."""
        self._process = subprocess.Popen(
            [_PROGRAM, "serve", str(self.root), "--listen", self.address, *self._options],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        match = _LISTENS.match(line)
        assert match is not None, line
        self.address = match[1]

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill it."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None

    def __enter__(self) -> Self:
        """Start it."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Kill it."""
        self.kill()
