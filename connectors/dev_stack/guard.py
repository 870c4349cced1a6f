"""The process above a JVM: it ends the JVM when the owner ends, kill -9 included.

child.py runs this file as a script; it imports nothing of ours and so starts in milliseconds:

    python -I -S guard.py OWNER_PID OWNER_STARTED SCRATCH LOG COMMAND...

It detaches, starts the command in a process group of its own with its output in LOG, prints number
and start of itself and of the command, and waits for what comes first:

* the command ends: so does the guard;
* the owner ends: the group is killed and SCRATCH, if any, removed. SIGUSR1 frees it before that.

When the guard itself is killed, the kernel kills the command. The owner is watched through a
descriptor of its process: unlike a pipe it is not held open by what the owner forked, and unlike
a parent-death signal it does not depend on the thread that made the call.
"""

import contextlib
import ctypes
import os
import select
import shutil
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_CANNOT_START = 127


def main() -> None:
    """Start the command and outlive it."""
    owner_pid, owner_started, scratch, log, *command = sys.argv[1:]
    if os.fork():
        # Whoever called need not wait for the guard: it belongs to init.
        os._exit(0)
    os.setsid()
    os.chdir("/")
    freed: list[int] = []
    signal.signal(signal.SIGUSR1, lambda number, _frame: freed.append(number))
    log_descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    owner = _watch(int(owner_pid), int(owner_started))
    program = _start(command, log_descriptor)
    told = (os.getpid(), _started(os.getpid()), program, _started(program))
    os.write(1, " ".join(map(str, told)).encode())
    _let_go_of_standard_streams(log_descriptor)
    _wait(program, owner, freed, scratch)


def _watch(pid: int, started: int) -> int:
    """Return a descriptor that becomes readable when the owner ends."""
    try:
        descriptor = os.pidfd_open(pid)
        if _started(pid) == started:
            return descriptor
    except OSError:
        pass
    sys.exit(f"the owner, process {pid}, is gone")


def _started(pid: int) -> int:
    """Return when a process began, in ticks since boot; it may have ended, but is not reaped."""
    text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    return int(text.rpartition(")")[2].split()[19])


def _start(command: list[str], log: int) -> int:
    guard = os.getpid()
    pid = os.fork()
    if pid:
        # Both sides set it, so that neither runs on before it is set.
        with contextlib.suppress(OSError):
            os.setpgid(pid, pid)
        return pid
    try:
        os.setpgid(0, 0)
        # Sound here: the guard has one thread, and it lives as long as the guard.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() == guard:
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)
            _let_go_of_standard_streams(log)
            os.execv(command[0], command)  # noqa: S606 - no shell is the point
    except OSError as error:
        os.write(log, f"ERROR cannot start {command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(_CANNOT_START)


def _let_go_of_standard_streams(log: int) -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(nothing)


def _wait(program: int, owner: int, freed: list[int], scratch: str) -> None:
    program_descriptor = os.pidfd_open(program)
    poller = select.poll()
    poller.register(program_descriptor, select.POLLIN)
    poller.register(owner, select.POLLIN)
    ready = {descriptor for descriptor, _ in poller.poll()}
    if program_descriptor not in ready and freed:
        poller.unregister(owner)
        poller.poll()
    elif program_descriptor not in ready:
        os.killpg(program, signal.SIGKILL)
    _, status = os.waitpid(program, 0)
    code = os.waitstatus_to_exitcode(status)
    told = f"signal {-code}" if code < 0 else f"exit code {code}"
    os.write(1, f"the process ended with {told}\n".encode())
    if scratch and program_descriptor not in ready and not freed:
        shutil.rmtree(scratch, ignore_errors=True)


if __name__ == "__main__":
    main()
