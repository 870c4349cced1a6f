"""Where the `shardlog` command begins: interruptible without a traceback from its first moment.

Importing what the command stands on takes a moment, and what a verb works with half a second. An
interrupt in it would come out as a traceback from the middle of some library, or be taken by it for
a broken installation; while anything is imported (verbs/work.py), and once the command is done,
Ctrl-C ends the process as it ends any other program. A worker that is told to stop while it starts
has begun nothing, and ends as one that was stopped later: by exit code 0. It hears signals before
anything else is loaded, since the first process of a container is ended by none that it has no
handler for. SIGUSR1, which somebody may send to a worker at any time, is not to end one that cannot
hear it yet. A package of others that is not installed is told in one line.
"""

import atexit
import os
import signal
import sys
from typing import Final

from connectors.cli.standard_descriptors import fill_standard_descriptors

# The verb with handlers of its own; with one of these it does not run, and is interrupted.
_HEARS_SIGNALS: Final = "worker"
_RUNS_NOT: Final = frozenset(("--check", "--help"))
_STOPS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_OURS: Final = ("connectors", "storage_core", "streaming_jobs")


def run() -> None:
    """Run the command and exit with its code."""
    fill_standard_descriptors()
    usual = signal.getsignal(signal.SIGINT)
    _end_at_once(usual)
    is_worker = sys.argv[1:2] == [_HEARS_SIGNALS] and _RUNS_NOT.isdisjoint(sys.argv)
    if is_worker:
        _hear_early()
    from connectors.cli.exit_codes import EXIT_INTERRUPTED, EXIT_USAGE  # noqa: PLC0415 - takes long

    try:
        from connectors.cli.main import outcome  # noqa: PLC0415 - as above
        from connectors.cli.output.standard_output import tell_refusals  # noqa: PLC0415 - as above

        if not is_worker:
            signal.signal(signal.SIGINT, usual)
        tell_refusals()
        code = outcome()
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except ModuleNotFoundError as error:
        lacking = (error.name or "").partition(".")[0]
        if lacking in ("", *_OURS):
            raise
        sys.stderr.write(f"shardlog: its installation lacks {lacking}; install shardlog again\n")
        code = EXIT_USAGE
    if is_worker:
        # Behind the end of all threads: for as long as one hangs a second signal ends it.
        atexit.register(_hear_no_more)
    else:
        _end_at_once(usual)
    sys.exit(code)


def _hear_early() -> None:
    """Let a signal to stop end the process well, until the worker sets what it does on it."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    for number in _STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            # Not by an exception: a library would take it for its own, or the import for broken.
            signal.signal(number, lambda *_: os._exit(0))


def _hear_no_more() -> None:
    """Let no signal take the exit code: the interpreter would set its default action at the end."""
    for number in (*_STOPS, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)


def _end_at_once(usual: object) -> None:
    # What a shell runs in the background is not to be interrupted at all.
    if usual is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
