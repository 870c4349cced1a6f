"""A call in another process, killed before one of its calls of the disk.

killed_before_step(3, lambda: drop_stream(root, name))    before its fourth call; whether it was
"""

import os
from collections.abc import Callable

CALLS = ("fsync", "mkdir", "rename", "write")
_KILLED, _FAILED = 9, 1


def killed_before_step(step: int, call: Callable[[], object]) -> bool:
    """Run a call in a fork that ends before a call of the disk; false where it had no so many."""
    child = os.fork()
    if child == 0:
        _run(step, call)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, _KILLED), f"the call has failed: {code}"
    return code == _KILLED


def _run(step: int, call: Callable[[], object]) -> None:
    calls = 0

    def counted(function: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object, **named: object) -> object:
            nonlocal calls
            if calls == step:
                os._exit(_KILLED)
            calls += 1
            return function(*arguments, **named)

        return run

    for name in CALLS:
        setattr(os, name, counted(getattr(os, name)))
    try:
        call()
    except BaseException:  # noqa: BLE001 - the fork tells by its code
        os._exit(_FAILED)
    os._exit(0)
