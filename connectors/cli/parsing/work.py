"""A command's code: the function of its name in another module, loaded when it is called.

A command is declared as a function without a body, for typer to read; its code takes the same
parameters, each by its name. `tests/tidy/test_command_start.py` compares both.
"""

import signal
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import Final

# What a declared command has under this name is its class; without it, it is typer's own.
COMMAND_CLASS: Final = "command_class"


def done_in(module: str) -> Callable[[Callable[..., None]], Callable[..., object]]:
    """Return a decorator that has a declared command run the function of its name.

    Args:
        module: The module of that function.
    """

    def with_work(declared: Callable[..., None]) -> Callable[..., object]:
        # Where a test looks for it.
        vars(declared)["done_in"] = module

        @wraps(declared)
        def command(**arguments: object) -> object:
            work = getattr(imported(module), declared.__name__)
            return work(**arguments)

        return command

    return with_work


def imported(module: str) -> ModuleType:
    """Return a module; until it is imported, Ctrl-C ends the process (entry.py says why)."""
    usual = signal.getsignal(signal.SIGINT)
    if usual is not signal.default_int_handler:
        # Nobody is to interrupt it, or it ends the process already.
        return import_module(module)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return import_module(module)
    finally:
        signal.signal(signal.SIGINT, usual)
