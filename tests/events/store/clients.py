"""Clients that store events until their process is killed, and notes of what was acknowledged.

Client c stores its steps one after the other, in a context of its own. Step n is one event, of one
of two types, or a batch of one event of each; it expects as many events as the steps before had,
and has the idempotency key n. A step that was not acknowledged comes again first. A note is a line:
client, step, and the positions that were answered.
"""

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.events.store.bench import WAIT_MAX, rows_of, stored
from typed_events.answer import Status
from typed_events.event_store import EventStore
from typed_events.store.options import EventStoreOptions

CLIENTS: Final = 20
TYPES: Final = ("order", "pay")


@dataclass(frozen=True, slots=True)
class ClientsPlan:
    """Where clients store, and where they note."""

    root: Path
    notes: Path
    batches_every: int


def types_of(step: int, batches_every: int) -> tuple[str, ...]:
    """Return the types of the events of a step."""
    return TYPES if step % batches_every == 0 else (TYPES[step % 2],)


def command_of(client: int, step: int, batches_every: int) -> str:
    """Return the command of a step."""
    before = sum(len(types_of(earlier, batches_every)) for earlier in range(step))
    stores = [
        stored(
            event_type,
            f"client-{client}",
            f'IDEMPOTENCY "{step}" EXPECT {before + number}',
            client=client,
            step=step,
        )
        for number, event_type in enumerate(types_of(step, batches_every))
    ]
    return stores[0] if len(stores) == 1 else f"BATCH [ {'; '.join(stores)}; ]"


def steps_noted(notes: Path) -> Iterator[tuple[int, int, list[str]]]:
    """Yield client, step and positions of each note; a line that was cut is none."""
    if not notes.exists():
        return
    for line in notes.read_text(encoding="utf-8").split("\n")[:-1]:
        client, step, positions = line.split(" ")
        yield int(client), int(step), positions.split(",")


def run_clients(plan: ClientsPlan) -> None:
    """Store with many clients until the process is killed."""
    next_steps = dict.fromkeys(range(CLIENTS), 0)
    for client, step, _ in steps_noted(plan.notes):
        next_steps[client] = step + 1
    store = EventStore.open(plan.root, options=EventStoreOptions(wait_max=WAIT_MAX))
    notes = os.open(plan.notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def run(client: int) -> None:
        step = next_steps[client]
        while True:
            answer = store.execute(command_of(client, step, plan.batches_every))
            if answer.status is not Status.OK:
                os.write(notes, f"{client} {step} {answer.message.replace(' ', '_')}\n".encode())
                return
            positions = ",".join(row["id"] for row in rows_of(answer))
            os.write(notes, f"{client} {step} {positions}\n".encode())
            step += 1

    threads = [threading.Thread(target=run, args=(client,)) for client in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
