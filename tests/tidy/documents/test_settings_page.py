"""docs/CONFIGURATION.md has each setting of the worker with its default, and no other."""

from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from connectors.settings.options import FaultSettings, WorkerOptions
from tests.tidy.documents.tables import bare_name, page, rows_below

# What the table says, where the code has None and fills it in, or a word for each of a table's.
SAID = {"stream.unit": "ms", "stream.ahead_max_ms": 86_400_000, "log.levels": "info"}
UNITS = {"MiB": 2**20}


def settings_of(model: type[BaseModel], section: str = "") -> dict[str, FieldInfo]:
    """Return the settings of a section by whole names, those of sections within it too."""
    settings: dict[str, FieldInfo] = {}
    for name, field in model.model_fields.items():
        inner, whole_name = field.annotation, f"{section}{field.alias or name}"
        if isinstance(inner, type) and issubclass(inner, BaseModel) and inner is not FaultSettings:
            settings |= settings_of(inner, f"{whole_name}.")
        else:
            settings[whole_name] = field
    return settings


def default_of(name: str, field: FieldInfo) -> Any:
    """Return the default as the table says it, None for none."""
    if name in SAID:
        return SAID[name]
    default = None if field.is_required() else field.get_default(call_default_factory=True)
    if isinstance(default, FaultSettings):
        (default,) = set(default.model_dump().values())
    return None if default in ("", (), {}) else default


def read_default(cell: str) -> Any:
    """Return what a cell says of a default: a word, a number, true or false, None for none."""
    number, _, unit = cell.replace(",", "").partition(" ")
    if cell in ("", "none"):
        return None
    if cell.startswith("`"):
        return bare_name(cell)
    if cell in ("true", "false"):
        return cell == "true"
    return float(number) * UNITS.get(unit, 1)


def documented() -> dict[str, Any]:
    rows = rows_below("option", page("CONFIGURATION.md"))
    return {bare_name(row[0]): read_default(row[1]) for row in rows}


def test_settings_of_the_worker_are_those_of_the_document() -> None:
    settings = settings_of(WorkerOptions)
    assert len(settings) > 40
    assert set(settings) - set(documented()) == set()
    assert set(documented()) - set(settings) == set()


def test_defaults_are_those_of_the_document() -> None:
    defaults = {name: default_of(name, field) for name, field in settings_of(WorkerOptions).items()}
    assert {name: said for name, said in documented().items() if said != defaults[name]} == {}


def test_default_is_read_from_a_cell() -> None:
    said = [read_default(cell) for cell in ("", "none", "`keep`", "1,000", "8 MiB", "false")]
    assert said == [None, None, "keep", 1000, 2**23, False]
