"""Clients that change rows of state until their process is killed, and notes of what was answered.

Client c changes rows of a context of its own, one step after the other. Each step has its number as
value and as idempotency key; every fourth deletes a row. A step that was not noted comes again
first. A note is a line: client and step.
"""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.events.state.rows import delete_text, put_text
from tests.events.store.bench import WAIT_MAX
from typed_events.answer import Status
from typed_events.event_store import EventStore
from typed_events.store.options import EventStoreOptions

CLIENTS: Final = 8
_IDS: Final = 3


@dataclass(frozen=True, slots=True)
class ClientsPlan:
    """Where clients store, and where they note."""

    root: Path
    notes: Path


def row_of(step: int) -> str:
    """Return the row that a step changes."""
    return f"row-{step % _IDS}"


def deletes(step: int) -> bool:
    """Tell whether a step deletes its row."""
    return step % 4 == 3


def rows_after(steps: int) -> dict[str, int]:
    """Return the rows of a client behind its first steps."""
    rows: dict[str, int] = {}
    for step in range(steps):
        if deletes(step):
            rows.pop(row_of(step), None)
        else:
            rows[row_of(step)] = step
    return rows


def noted_steps(notes: Path) -> Iterator[tuple[int, int]]:
    """Yield client and step of each note; a line that was cut is none."""
    if not notes.exists():
        return
    for line in notes.read_text(encoding="utf-8").split("\n")[:-1]:
        client, step = line.split(" ")
        yield int(client), int(step)


def run_clients(plan: ClientsPlan) -> None:
    """Change rows with many clients until the process is killed."""
    next_steps = dict.fromkeys(range(CLIENTS), 0)
    next_steps |= {client: step + 1 for client, step in noted_steps(plan.notes)}
    store = EventStore.open(plan.root, options=EventStoreOptions(wait_max=WAIT_MAX))
    notes = os.open(plan.notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def run(client: int) -> None:
        step = next_steps[client]
        while True:
            context, row, key = f"client-{client}", row_of(step), f'IDEMPOTENCY "{step}"'
            text = delete_text(context, row, key)
            if not deletes(step):
                text = put_text(context, row, step, key)
            if store.execute(text).status is not Status.OK:
                return
            os.write(notes, f"{client} {step}\n".encode())
            step += 1

    threads = [threading.Thread(target=run, args=(client,)) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
