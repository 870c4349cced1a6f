"""`shardlog group`: pause, resume and retry partitions while workers run."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from connectors.cli.exit_codes import EXIT_UNAVAILABLE
from connectors.cli.output.printing import print_json, print_lines
from connectors.group.operations import pause as pause_partitions
from connectors.group.operations import resume as resume_partitions
from connectors.group.owner_waits import Outcome
from connectors.group.retrying import retry as retry_partitions


def pause(  # noqa: PLR0913 - one parameter an option
    *,
    root: Path,
    stream: str,
    partition: list[int] | None,
    reason: str,
    wait: float,
    as_json: bool,
) -> int:
    """Pause partitions; the exit code is 3 where a shard is still open."""
    return _print(
        pause_partitions(root, stream, partition or (), reason=reason, wait_s=wait), as_json=as_json
    )


def resume(
    *, root: Path, stream: str, partition: list[int] | None, wait: float, as_json: bool
) -> int:
    """Resume partitions."""
    return _print(resume_partitions(root, stream, partition or (), wait_s=wait), as_json=as_json)


def retry(
    *, root: Path, stream: str, partition: list[int] | None, wait: float, as_json: bool
) -> int:
    """Try quarantined partitions again; the exit code is 3 where one is still quarantined."""
    return _print(retry_partitions(root, stream, partition or (), wait_s=wait), as_json=as_json)


def _print(outcomes: Sequence[Outcome], *, as_json: bool) -> int:
    if as_json:
        print_json([_facts(outcome) for outcome in outcomes])
    else:
        print_lines(_lines(outcomes))
    return 0 if all(outcome.is_done for outcome in outcomes) else EXIT_UNAVAILABLE


def _lines(outcomes: Iterable[Outcome]) -> list[str]:
    return [
        f"{outcome.partition.topic} "
        + ("all" if outcome.partition.number < 0 else f"partition {outcome.partition.number}")
        + f": {outcome.text}"
        for outcome in outcomes
    ]


def _facts(outcome: Outcome) -> dict[str, object]:
    return {
        "stream": outcome.partition.topic,
        "partition": outcome.partition.number,
        "is_done": outcome.is_done,
        "text": outcome.text,
        "owner": None if outcome.owner is None else asdict(outcome.owner),
    }
