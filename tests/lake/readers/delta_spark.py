"""Spark with Delta's jars, as docs/LAKE.md has both; one JVM for all tests of a process.

    with DeltaSpark(place, tell) as spark:
        table = spark.table(uri, checkpoint)
        table.turn(columns)     the rows of the table, and those that a stream of it brings anew

It runs in a process of its own, of another PySpark than the one of the environment.
"""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from threading import Timer
from typing import Final, Self

from connectors.devtools.fetch import Bundle, fetched
from tests.tidy.test_readme import fenced, page
from tests.tidy.tree import ROOT
from tests.versions.pysparks import environment, pyspark_of

VERSION: Final = "4.1.4"
DELTA: Final = (
    ("io.delta", "delta-spark_4.1_2.13", "4.3.1"),
    ("io.delta", "delta-storage", "4.3.1"),
)
JARS: Final = Bundle(
    name="delta-spark-4.1-4.3.1",
    dependencies="\n".join(
        f'    <dependency org="{org}" name="{name}" rev="{rev}" transitive="false"'
        ' conf="default->default"/>'
        for org, name, rev in DELTA
    ),
    files=len(DELTA),
    megabytes=9,
    sha256="57abfcca55f027a23f5aec7c70d0006cdb734572fced48740ad0a0150e83b391",
)
_PAGE: Final = "docs/LAKE.md"
_ANSWER_MAX_S: Final = 1200.0
_QUOTE_CHARS: Final = 3000


@dataclass(frozen=True, slots=True)
class Turn:
    """What one question brings, as text.

    Attributes:
        frame: The rows of the table.
        news: Those that the stream of it brings from its checkpoint on.
        landed: Those of `land_topic`, where it was asked.
        parts: Those of the stream's parts, where they were.
    """

    frame: list[str]
    news: list[str]
    landed: list[str] | None = None
    parts: list[str] | None = None


class DeltaSpark:
    """The running program. One thread; a context manager that ends it.

    Raises:
        FetchError: That PySpark cannot be had.
    """

    def __init__(self, place: Path, tell: Callable[[str], None]) -> None:
        pyspark, jars = pyspark_of(VERSION, tell), fetched(JARS)
        self._log = place / "spark.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.lake.readers.spark_driver", str(place)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                # PySpark has no time without the zone of its process.
                env={**environment(pyspark), "TZ": "UTC"},
            )
        settings = settings_of_the_page()
        settings["spark.jars"] = ",".join(str(jar) for jar in sorted(jars.glob("*.jar")))
        self._say(settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Where nobody asks any more, it ends.
        with self._process:
            pass

    def table(self, uri: str, checkpoint: Path) -> "DeltaSparkTable":
        """Return a table, and a stream of it with a checkpoint."""
        return DeltaSparkTable(self, program_of_the_page(uri), checkpoint)

    def ask(self, question: object) -> Turn:
        """Return what a question brings."""
        self._say(question)
        assert self._process.stdout is not None
        hang = Timer(_ANSWER_MAX_S, self._process.kill)
        hang.start()
        try:
            line = self._process.stdout.readline()
        finally:
            hang.cancel()
        assert line, self._log.read_text()[-_QUOTE_CHARS:]
        return Turn(**json.loads(line))

    def _say(self, question: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()


@dataclass(frozen=True, slots=True)
class DeltaSparkTable:
    """A table as Spark reads it by Delta."""

    spark: DeltaSpark
    program: str
    checkpoint: Path

    def turn(
        self,
        columns: Sequence[str],
        land: tuple[Path, str] | None = None,
        parts: Sequence[str] = (),
        floor: int | None = None,
    ) -> Turn:
        """Return the rows of the table, and those that its stream brings.

        Args:
            columns: Those wanted of the table.
            land: The root and the stream whose table it is, for `land_topic`.
            parts: Columns of the stream's parts that are wanted then.
            floor: The least primary of the rows of the table; if None all count.
        """
        question = {
            "program": self.program,
            "checkpoint": str(self.checkpoint),
            "columns": list(columns),
            "land": None if land is None else [str(land[0]), land[1]],
            "parts": list(parts),
            "where": "true" if floor is None else f"primary >= {floor}",
        }
        return self.spark.ask(question)


def settings_of_the_page() -> dict[str, str]:
    """Return the settings of Spark that the page names."""
    words = words_of_the_page()
    return dict(
        word.split("=", maxsplit=1) for option, word in pairwise(words) if option == "--conf"
    )


def packages_of_the_page() -> list[str]:
    """Return the coordinates of the jars that the page names."""
    words = words_of_the_page()
    return words[words.index("--packages") + 1].split(",")


def words_of_the_page() -> list[str]:
    (command,) = (each for each in fenced(page(_PAGE), "sh") if each.startswith("pyspark "))
    return shlex.split(command.replace("\\\n", " "))


def program_of_the_page(uri: str) -> str:
    """Return the page's program over a table, in place of the one that it names."""
    (program,) = (each for each in fenced(page(_PAGE), "python") if "spark." in each)
    return re.sub(r'"s3a://[^"]*"', json.dumps(uri), program)
