"""The process above a JVM: it ends the JVM when the owner ends, kill -9 included.

process.py runs this file as a script; it imports nothing of ours and so starts in milliseconds:

    python -I -S guard.py OWNER SCRATCH LOG COMMAND...

It detaches, starts the command in a process group of its own with its output in LOG, prints number
and start of itself and of the command, and waits for what comes first:

* the command ends: so does the guard;
* the owner ends: the group is killed and SCRATCH, if any, removed. SIGUSR1 frees it before that.

When the guard itself is killed, the kernel kills the command. OWNER is a descriptor of the owner's
process, readable when that ends: unlike a pipe it is not held open by what the owner forked, and
unlike a parent-death signal it does not depend on the thread that made the call.
"""

import ctypes
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Start the command and outlive it."""
    owner, scratch, log, *command = sys.argv[1:]
    if os.fork():
        # Whoever called need not wait for the guard: it belongs to init.
        os._exit(0)
    os.setsid()
    os.chdir("/")
    freed: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _frame: freed.append(number))
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    program = _start(command, output)
    pids = (os.getpid(), program.pid)
    os.write(1, " ".join(f"{pid} {state_and_start(pid)[1]}" for pid in pids).encode())
    os.dup2(output, 1)
    os.dup2(output, 2)
    is_orphaned = _has_outlived(int(owner), program) and not freed
    if is_orphaned:
        os.killpg(program.pid, signal.SIGKILL)
    code = program.wait()
    ending = f"signal {-code}" if code < 0 else f"exit code {code}"
    os.write(1, f"the process ended with {ending}\n".encode())
    if is_orphaned and scratch:
        shutil.rmtree(scratch, ignore_errors=True)


def state_and_start(pid: int) -> tuple[str, int]:
    """Return a process's state and when it began, in ticks since boot.

    Raises:
        OSError: It is gone.
    """
    text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    # The program's name stands in parentheses and may hold anything, these too.
    fields = text.rpartition(")")[2].split()
    return fields[0], int(fields[19])


def _start(command: list[str], output: int) -> "subprocess.Popen[bytes]":
    guard = os.getpid()

    def die_with_the_guard() -> None:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != guard:
            os._exit(1)

    try:
        return subprocess.Popen(  # noqa: S603 - our own command
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            process_group=0,
            preexec_fn=die_with_the_guard,  # noqa: PLW1509 - the guard has one thread
        )
    except OSError as error:
        sys.exit(f"cannot start {command[0]}: {error.strerror}")


def _has_outlived(owner: int, program: "subprocess.Popen[bytes]") -> bool:
    """Wait until the owner or the program ends; tell whether the program still runs."""
    poller = select.poll()
    poller.register(owner, select.POLLIN)
    ended = os.pidfd_open(program.pid)
    poller.register(ended, select.POLLIN)
    return ended not in {descriptor for descriptor, _ in poller.poll()}


if __name__ == "__main__":
    main()
