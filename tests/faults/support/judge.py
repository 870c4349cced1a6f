"""The child process that reads damaged copies of the known store and judges what comes back.

Sentence by sentence: every answer is the one that the undamaged store gives, or a `ShardlogError`
that names shard, file or addresses. Anything else is a fault: other rows, another exception, a
place not named; and a crash, which the parent sees, since the child notes what it is at.

Each damage is inflicted on two copies. One is opened for writing, asked everything, verified,
closed, opened and asked again (opening must not hide what it found), and written to. The other
is read by a `StreamReader` whose clock does not make it wait.
"""

import re
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from storage_core import CorruptionError, Environment, ShardlogError, Stream, StreamReader
from storage_core.testing import ManualClock
from tests.faults.support.damage import Damage
from tests.faults.support.known_store import STREAM, Ask, questions
from tests.faults.support.writer import Notebook

_PLACE = re.compile(r"shard \d|addresses \[|at /|\.json|marker")

Asks = list[tuple[str, Ask]]


@dataclass(frozen=True, slots=True)
class JudgePlan:
    """Which damages to do to copies of `root`, what is right, and where to note the verdicts."""

    root: Path
    damages: tuple[Damage, ...]
    right: dict[str, str]
    notes: Path


@dataclass
class Verdict:
    """What was wrong with one damaged copy, and which errors told of the damage."""

    right: dict[str, str]
    faults: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    corruptions: int = 0

    @contextmanager
    def judging(self, doing: str) -> Iterator[None]:
        """Take an error that a caller would get, and judge it."""
        try:
            yield
        except ShardlogError as error:
            self.complaints.append(f"{doing}: {type(error).__name__}: {error}")
            self.corruptions += isinstance(error, CorruptionError)
            if not _PLACE.search(str(error)):
                self.faults.append(f"{doing}: the error names no place: {error!r}")
        except Exception as error:  # noqa: BLE001 - every other kind is a fault
            self.faults.append(f"{doing}: untyped {error!r}")

    def ask(self, source_name: str, name: str, ask: Ask, source: Stream | StreamReader) -> None:
        """Ask one question and compare the answer."""
        with self.judging(f"{source_name} {name}"):
            answer = ask(source)
            if answer != self.right[name]:
                self.faults.append(
                    f"{source_name} {name}: silently {answer}, not {self.right[name]}"
                )


def judge_damages(plan: JudgePlan) -> None:
    """Judge one damage after the other, noting each before and after."""
    notebook = Notebook(plan.notes)
    for number, damage in enumerate(plan.damages):
        notebook.note(begun=number)
        verdict = Verdict(plan.right)
        asks = list(questions().items())
        asks = asks[number % len(asks) :] + asks[: number % len(asks)]
        for judge in (_judge_writer, _judge_reader):
            with _damaged_copy(plan.root, damage) as root:
                judge(verdict, root, asks)
        notebook.note(judged=number, faults=verdict.faults, complaints=verdict.complaints[:3])


@contextmanager
def _damaged_copy(original: Path, damage: Damage) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=original.parent) as folder:
        root = Path(folder) / "root"
        shutil.copytree(original, root)
        damage.inflict(root)
        yield root


def _judge_writer(verdict: Verdict, root: Path, asks: Asks) -> None:
    for source_name in ("writer", "second writer"):
        with verdict.judging(f"{source_name} open"), Stream.open(root, STREAM) as stream:
            before = verdict.corruptions
            for name, ask in asks:
                verdict.ask(source_name, name, ask, stream)
            with verdict.judging(f"{source_name} verify"):
                if stream.verify().is_clean and verdict.corruptions > before:
                    verdict.faults.append(
                        f"{source_name}: verify is clean, but {verdict.complaints[-1]}"
                    )
    with verdict.judging("append"), Stream.open(root, STREAM) as stream:
        stream.append(1_600_000_000_000, 4, b"after the damage")
        stream.commit()


def _judge_reader(verdict: Verdict, root: Path, asks: Asks) -> None:
    environment = Environment(clock=ManualClock())
    open_reader: Callable[[], StreamReader] = partial(
        StreamReader.open, root, STREAM, environment=environment
    )
    with verdict.judging("reader open"), open_reader() as reader:
        before = len(verdict.complaints)
        for name, ask in asks:
            if len(verdict.complaints) == before:
                verdict.ask("reader", name, ask, reader)
