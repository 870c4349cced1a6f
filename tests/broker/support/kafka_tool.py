"""Kafka's own tool for groups, `kafka-consumer-groups`: one jar beside those of the broker."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from typing import Final

from connectors.devtools.broker import KAFKA, KAFKA_VERSION
from connectors.devtools.fetch import Bundle, fetched
from connectors.devtools.java import SHORT_LIVED, find_java
from tests.waiting import WAIT_MAX_S

TOOLS: Final = Bundle(
    name=f"kafka-tools-{KAFKA_VERSION}",
    # All it depends on, the broker has.
    dependencies=f"""\
    <dependency org="org.apache.kafka" name="kafka-tools" rev="{KAFKA_VERSION}"
                conf="default->master" transitive="false"/>""",
    files=1,
    megabytes=1,
    sha256="074f92301d7a679305b0f8038c11868fae768b358f8232b5afb3e1a373ce32af",
)
_CLASS: Final = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_GROUP: Final = "GROUP"

Line = dict[str, str]


class KafkaTool:
    """The tool, asked about one group."""

    def __init__(self, bootstrap: str, group: str) -> None:
        """Fetch the tool if it is not there."""
        self._group = group
        class_path = os.pathsep.join(f"{fetched(bundle)}/*" for bundle in (KAFKA, TOOLS))
        options = (*SHORT_LIVED, "-XX:-UsePerfData", "-Dorg.apache.logging.log4j.level=ERROR")
        self._command = (
            *(str(find_java()), *options, "-cp", class_path, _CLASS),
            *("--bootstrap-server", bootstrap, "--group", group),
            *("--timeout", str(int(WAIT_MAX_S * 1000))),
        )

    def describes(self, *options: str) -> list[Line]:
        """Return the lines of `--describe`."""
        return [*_lines(self._says("--describe", *options))]

    def would_reset(self, topic: str, target: Sequence[str]) -> dict[int, int]:
        """Return the new offset of each partition, of a dry run."""
        said = self._says("--reset-offsets", "--topic", topic, "--dry-run", *target)
        return {int(line["PARTITION"]): int(line["NEW-OFFSET"]) for line in _lines(said)}

    def _says(self, *arguments: str) -> str:
        ran = subprocess.run(
            [*self._command, *arguments],
            capture_output=True,
            text=True,
            timeout=2 * WAIT_MAX_S,
            check=False,
        )
        assert ran.returncode == 0, ran
        return ran.stdout


def _lines(table: str) -> Iterator[Line]:
    """Yield each line of a table by the words above it; other lines are warnings."""
    names: list[str] = []
    for words in map(str.split, table.splitlines()):
        if words[:1] == [_GROUP]:
            names = words
        elif names and len(words) == len(names):
            yield dict(zip(names, words, strict=True))
