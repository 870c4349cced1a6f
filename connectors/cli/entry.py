"""The entry point of `shardlog`: Ctrl-C ends it without a traceback from its first moment.

Imports take up to half a second. An interrupt in one would be a traceback from inside a library, or
look to it like a broken installation; so while anything is imported (parsing/work.py), and once the
command is done, Ctrl-C has its default action. A worker that is stopped while it starts exits with
0, as one that is stopped later. It sets its signal handlers before anything else is loaded: PID 1
of a container ignores signals without a handler. SIGUSR1 does not end a worker that cannot handle
it yet. A missing package of others is reported in one line, with the extra that brings it. What
delta-rs logs below errors is left out, unless RUST_LOG says otherwise.
"""

import atexit
import os
import signal
import sys
from typing import Final

from connectors.cli.standard_descriptors import fill_standard_descriptors

# The command with signal handlers of its own; with one of these options it does not run.
_HEARS_SIGNALS: Final = "worker"
_RUNS_NOT: Final = frozenset(("--check", "--help"))
_STOPS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_OURS: Final = ("connectors", "storage_core", "streaming_jobs")


def run() -> None:
    """Run the command and exit with its code."""
    fill_standard_descriptors()
    # Read once, when deltalake is imported; processes that this one starts have it as well.
    os.environ.setdefault("RUST_LOG", "error")
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
        # Nothing of it was imported yet where the first module of others is missing.
        from connectors.cli.missing_extra import what_is_missing  # noqa: PLC0415 - as above

        said = what_is_missing(lacking, sys.argv[1:])
        said = said or f"its installation lacks {lacking}; install it again"
        sys.stderr.write(f"shardlog: {said}\n")
        code = EXIT_USAGE
    if is_worker:
        # Behind the end of all threads: for as long as one hangs a second signal ends it.
        atexit.register(_hear_no_more)
    else:
        _end_at_once(usual)
    sys.exit(code)


def _hear_early() -> None:
    """Exit with 0 on a signal to stop, until the worker sets its own handlers."""
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    for number in _STOPS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            # Not by an exception: a library would take it for its own, or the import for broken.
            signal.signal(number, lambda *_: os._exit(0))


def _hear_no_more() -> None:
    """Ignore signals, so that none changes the exit code while the interpreter ends."""
    for number in (*_STOPS, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)


def _end_at_once(usual: object) -> None:
    # What a shell runs in the background is not to be interrupted at all.
    if usual is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
