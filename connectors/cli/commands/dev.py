"""`shardlog dev`: a real broker, and a registry when asked, without Docker.

What is printed on standard output is for the shell (`eval "$(shardlog dev up)"`); what people
read goes to standard error. The work is done in connectors/devtools/stack.py.
"""

import os
import signal
from typing import Final

import typer

from connectors.cli.exit_codes import EXIT_UNAVAILABLE
from connectors.cli.output.printing import print_line, print_table
from connectors.devtools.broker import BROKER
from connectors.devtools.places import dev_directory
from connectors.devtools.process import Process
from connectors.devtools.registry import REGISTRY
from connectors.devtools.stack import KINDS, DevStack
from storage_core import InvalidRequestError, UnavailableError

_LOOK_EVERY_S: Final = 1.0
_COLUMNS: Final = ("server", "address", "pid", "answers")


def up(*, registry: bool, foreground: bool) -> None:
    """Start a broker and print its address as shell assignments."""
    stack = DevStack(dev_directory(), owner=Process.current() if foreground else None)
    if foreground and stack.services():
        message = "the dev stack already runs: end it with `shardlog dev down`"
        raise InvalidRequestError(message)
    _start(stack, registry=registry)
    if foreground:
        _stay(stack)


def down() -> None:
    """Stop what `shardlog dev up` started, and remove its data."""
    ended = DevStack(dev_directory()).stop()
    for name in ended:
        print_line(f"unset {KINDS[name].variable}")
        typer.echo(f"{name} stopped", err=True)
    if not ended:
        typer.echo("nothing was running", err=True)


def status() -> None:
    """Show what runs, and whether it answers; the exit code is 3 when something does not."""
    services = DevStack(dev_directory()).services()
    if not services:
        message = "nothing runs: start it with `shardlog dev up`"
        raise UnavailableError(message)
    answers = {
        name: KINDS[name].is_answering(service.address) for name, service in services.items()
    }
    rows = [
        (name, service.address, service.process.pid, "yes" if answers[name] else "no")
        for name, service in services.items()
    ]
    print_table(_COLUMNS, rows)
    if not all(answers.values()):
        raise typer.Exit(EXIT_UNAVAILABLE)


def _start(stack: DevStack, *, registry: bool) -> None:
    # All or nothing is printed: half an answer would set half an environment.
    started = [(kind, stack.address(kind)) for kind in (BROKER, *((REGISTRY,) if registry else ()))]
    for kind, address in started:
        if os.environ.get(kind.variable):
            typer.echo(f"{kind.variable} is set: using {address}, starting none", err=True)
        print_line(f"export {kind.variable}={address}")


def _stay(stack: DevStack) -> None:
    """Wait until told to end, or until nothing is left to wait for; then stop all."""
    ending = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, ending)
    try:
        typer.echo("running; press Ctrl-C to stop", err=True)
        while stack.services():
            if signal.sigtimedwait(ending, _LOOK_EVERY_S):
                break
        else:
            message = f"all servers have ended; their logs are in {stack.directory}"
            raise UnavailableError(message)
    finally:
        stack.stop()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ending)
