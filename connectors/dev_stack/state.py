"""The record of what a dev stack runs, so that another process can find and stop it.

`stack.json` beside the services' directories: for each its address, its process and its place.
Replaced whole; read and written under the stack's lock.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from connectors.dev_stack.process import Process
from storage_core import InvalidRequestError

_STATE_FILE: Final = "stack.json"


@dataclass(frozen=True, slots=True)
class Service:
    """A server that was started."""

    address: str
    process: Process
    directory: Path


def read_state(directory: Path) -> dict[str, Service]:
    """Return the recorded services by name, alive or not.

    Raises:
        InvalidRequestError: The record is not one of ours.
    """
    path = directory / _STATE_FILE
    try:
        recorded = json.loads(path.read_text(encoding="utf-8"))
        return {
            name: Service(facts["address"], Process(**facts["process"]), Path(facts["directory"]))
            for name, facts in recorded.items()
        }
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        message = "not a record of `shardlog dev`: end its processes by hand, then remove it"
        raise InvalidRequestError(message, path=path) from error


def write_state(directory: Path, services: Mapping[str, Service]) -> None:
    """Put a record in the place of the last."""
    path = directory / _STATE_FILE
    recorded = {
        name: {**asdict(service), "directory": str(service.directory)}
        for name, service in services.items()
    }
    draft = path.with_suffix(".draft")
    draft.write_text(json.dumps(recorded, indent=1), encoding="utf-8")
    draft.replace(path)
