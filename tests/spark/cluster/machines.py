"""Machines of a cluster, on one computer: what runs on one does not see what another has on disk.

    way = found_way()                       how a process is kept from a folder here
    machine = Machine("machine-1", disk, way)
    machine.start([...], log)               a process that runs there

`disk` is a folder with all that only tests and servers see. Either it is another, empty disk
in a mount namespace, with a host name and a boot id of its own (`mounts`); or, where nobody may
mount, as in many containers, it belongs to somebody else, and what runs on a machine has lost the
right of root to go there all the same (`rights`).
"""

import os
import shutil
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Way = Literal["mounts", "rights"]
WAYS: Final[tuple[Way, ...]] = ("mounts", "rights")
_NOBODY: Final = 65_534
_END_MAX_S: Final = 120
# Which machine it is follows from the boot id; where that cannot be covered, from the disk alone.
_OWN_DISK: Final = """
mount -t tmpfs none "$1"
hostname "$2"
mount --bind "$3" /proc/sys/kernel/random/boot_id 2>/dev/null || true
shift 3
exec "$@"
"""
_LOST_RIGHTS: Final = "-dac_override,-dac_read_search"


class NoWayError(Exception):
    """No process can be kept from a folder here."""


def found_way() -> Way:
    """Return the first way that works here.

    Raises:
        NoWayError: None does.
    """
    for way in WAYS:
        if works(way):
            return way
    message = (
        "a cluster's machines have to be kept from the root: that takes the right to mount "
        "(unshare --mount), or root's own (setpriv), and this user has neither"
    )
    raise NoWayError(message)


def works(way: Way) -> bool:
    """Tell whether a way works here."""
    if way == "rights":
        command = _without_rights(["true"])
        return os.geteuid() == 0 and _succeeds(command)
    return _succeeds([*_unshared(), "mount", "-t", "tmpfs", "none", "/mnt"])


def _succeeds(command: Sequence[str]) -> bool:
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _unshared() -> list[str]:
    by_user = [] if os.geteuid() == 0 else ["--map-root-user"]
    return ["unshare", *by_user, "--mount", "--uts"]


def _without_rights(command: Sequence[str]) -> list[str]:
    return ["setpriv", "--bounding-set", _LOST_RIGHTS, "--inh-caps", _LOST_RIGHTS, *command]


def hide(disk: Path, way: Way) -> None:
    """Make a folder one that machines are kept from."""
    disk.mkdir(exist_ok=True)
    if way == "rights":
        disk.chmod(0o700)
        os.chown(disk, _NOBODY, _NOBODY)


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine: its host name, the disk it is kept from, and how."""

    name: str
    disk: Path
    way: Way

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs another one on this machine."""
        if self.way == "rights":
            return _without_rights(command)
        boot_id = self.disk.with_name(f"{self.name}-boot-id")
        if not boot_id.exists():
            boot_id.write_text(f"{uuid.uuid4()}\n")
        inside = ["sh", "-ec", _OWN_DISK, "sh", str(self.disk), self.name, str(boot_id)]
        return [*_unshared(), *inside, *command]

    def start(
        self, command: Sequence[str], log: Path, environment: Mapping[str, str]
    ) -> "subprocess.Popen[bytes]":
        """Start a process on this machine, in a session of its own."""
        with log.open("ab") as said:
            return subprocess.Popen(
                self.command(command),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=dict(environment),
                start_new_session=True,
            )


def run_beside(pid: int, command: Sequence[str]) -> None:
    """Run a command where a process of a machine runs, and see what it sees."""
    by_user = [] if os.geteuid() == 0 else ["--user", "--preserve-credentials"]
    subprocess.run(
        ["nsenter", "--target", str(pid), "--mount", *by_user, *command],
        check=True,
        capture_output=True,
        timeout=_END_MAX_S,
    )


def session_of(leader: int) -> list[int]:
    """Return the processes of a session, whoever their parents are by now."""
    members = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        # It may end meanwhile.
        with suppress(OSError):
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == leader and fields[0] not in "ZX":
                members.append(int(entry.name))
    return members
