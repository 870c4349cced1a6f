"""`shardlog dlq` in a process of its own, which a test may kill at a certain step of a retry."""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.broker.support.forked_command import ForkedCommand

DIED = 9
COMMAND_MAX_S = 240
# Where a retry may die: before it stores, before that is durable, before it clears, behind that.
STEPS = ("append_batch", "commit", "clear_dead_letters", "close")


def dlq(*arguments: object, first: Callable[[], None] | None = None) -> tuple[int, str, str]:
    """Run `shardlog dlq`; return its exit code, and what it said and complained of."""
    with TemporaryDirectory() as place:
        out, err = Path(place) / "out", Path(place) / "err"
        texts = ["dlq", *map(str, arguments)]
        code = ForkedCommand(texts, out, os.environ, err, first).wait(COMMAND_MAX_S)
        return code, out.read_text(), err.read_text()


def retry_that_dies(step: str, *arguments: object, nth: int = 1) -> None:
    """Have a retry die in place of the nth call of a step."""
    code, out, err = dlq("retry", *arguments, first=partial(_die_in_place_of, step, nth))
    assert code == DIED, (code, out, err)


def _die_in_place_of(step: str, nth: int) -> None:
    from storage_core import Stream  # noqa: PLC0415 - in the process that dies

    usual = getattr(Stream, step)
    calls = 0

    def call(stream: Stream, *arguments: Any, **named: Any) -> Any:
        nonlocal calls
        if named.get("outcome", "retried") != "forwarded" and _is_of_a_retry(stream):
            calls += 1
            if calls == nth:
                os._exit(DIED)
        return usual(stream, *arguments, **named)

    setattr(Stream, step, call)


def _is_of_a_retry(stream: Any) -> bool:
    return any(shard >= 1_000_000 for shard in stream.committed())
