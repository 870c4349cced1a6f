"""The process of a lossy file system: mounts it, obeys, unmounts.

A child process, `python -m tests.faults.lossy.daemon MOUNTPOINT [uncached]`. Commands are JSON
objects, one a line on stdin; each is answered by one line on stdout, the state. The first line of
stdout says that the mount is there. At the end of stdin the file system unmounts itself, so that no
mount outlives the tests.

* `{"cut": survivors}`: power goes now; null drops all that is unsynced, a number lets some of it
  survive by chance, "everything" all of it: what a kill would leave
* `{"cut_after": n, "survivors": …}`: power goes instead of the n-th change (write, sync, name)
* `{"up": true}`: power is back: the mount shows what was left; old handles stay dead (EIO)
* `{"format": true}`: an empty disk without faults
* `{"ignore_syncs": bool}`: every fsync answers 0 and keeps nothing
* `{"syncs_until_failure": n}`: after n more syncs every sync fails with EIO; null ends that
* `{"bytes_left": n}`: after n more bytes every write, and every new file, fails with ENOSPC
* `{"sync_delay_s": seconds}`: every sync takes that long
* `{"hold_syncs": bool}`: syncs wait until this is false again, power goes, or a minute has passed
* `{"refusal": errno, "refuses_under": text, "calls_until_refusal": n, "refusals_left": k,
  "refused": 0}`: behind n calls that can end with this error, of paths with this text in them, k
  more do, all of them where it is null; 0 ends that. `refused` counts them
* `{"wait_for": "down" | "held", "timeout_s": t}`: answers when power is gone, or a sync is held,
  or after t seconds
"""

import json
import os
import sys
import threading
from dataclasses import asdict
from typing import Any

from tests.faults.lossy.file_system import LossyFuse, LossyOperations
from tests.faults.lossy.mount import UNCACHED, unmount


class Control:
    """Carries out the commands of stdin, on a thread of the daemon."""

    def __init__(self, operations: LossyOperations, mountpoint: str) -> None:
        self._operations = operations
        self._mountpoint = mountpoint

    def run(self) -> None:
        """Answer every command, then unmount and end, whatever is still held or open."""
        for line in sys.stdin:
            command = json.loads(line)
            self._obey(command)
            with self._operations.changed:
                answer = json.dumps(asdict(self._operations.faults))
            sys.stdout.write(answer + "\n")
            sys.stdout.flush()
        unmount(self._mountpoint)
        os._exit(0)

    def _obey(self, command: dict[str, Any]) -> None:
        faults, changed = self._operations.faults, self._operations.changed
        with changed:
            match command:
                case {"cut": survivors}:
                    self._operations.cut(survivors)
                case {"cut_after": count, "survivors": survivors}:
                    faults.changes_until_cut, faults.survivors = count, survivors
                case {"up": True}:
                    faults.is_down = False
                case {"format": True}:
                    self._operations.format()
                case {"wait_for": what, "timeout_s": timeout_s}:
                    wanted = {"down": lambda: faults.is_down, "held": lambda: faults.held > 0}
                    changed.wait_for(wanted[what], timeout_s)
                case _:
                    for name, value in command.items():
                        assert hasattr(faults, name), name
                        setattr(faults, name, value)
            changed.notify_all()


def main(mountpoint: str, *, is_cached: bool) -> None:
    """Mount, and serve until stdin ends."""
    operations = LossyOperations(is_cached=is_cached)
    threading.Thread(target=Control(operations, mountpoint).run, daemon=True).start()
    LossyFuse(operations, mountpoint, foreground=True, fsname="lossy")


if __name__ == "__main__":
    main(sys.argv[1], is_cached=UNCACHED not in sys.argv)
