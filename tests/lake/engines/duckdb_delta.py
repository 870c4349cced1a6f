"""DuckDB with its extension for Delta tables, which reads a table by its address.

    with DuckDelta(place, tell) as duck:
        duck.rows(uri, columns, floor)

It runs in a process of its own: the extension is of another DuckDB than the one of the environment.
Both come once from the package index, and stay.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

from connectors.devtools.places import jars_directory
from tests.tidy.tree import ROOT
from tests.versions.pysparks import environment, packages_of

VERSION: Final = "1.5.5"
_PACKAGES: Final = (f"duckdb=={VERSION}", f"duckdb-extension-delta=={VERSION}")
_MEGABYTES: Final = 60
_QUOTE_CHARS: Final = 3000


class DuckDelta:
    """The running program. One thread; a context manager that ends it.

    Raises:
        FetchError: The packages cannot be had.
    """

    def __init__(self, place: Path, tell: Callable[[str], None]) -> None:
        home = jars_directory().parent / "duckdb" / VERSION
        packages = packages_of(_PACKAGES, home, _MEGABYTES, tell)
        self._log = place / "duckdb.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.lake.engines.duckdb_driver", str(packages)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                env=environment(packages),
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Where nobody asks any more, it ends.
        with self._process:
            pass

    def rows(self, uri: str, columns: Sequence[str], floor: int) -> list[str]:
        """Return the rows of a table from a primary on, as text."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([uri, list(columns), floor]) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, self._log.read_text()[-_QUOTE_CHARS:]
        rows: list[str] = json.loads(line)
        return rows
