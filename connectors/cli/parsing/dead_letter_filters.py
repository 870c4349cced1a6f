"""The filters of `shardlog dlq`, declared once for each of its commands.

A command has one parameter `filters`; `with_filters` gives it an option for each field instead, and
hands it what was said as one value.
"""

import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import wraps
from typing import Annotated, Any, Final, get_type_hints

import typer

_PARAMETER: Final = "filters"


@dataclass(frozen=True, slots=True)
class DeadLetterFilters:
    """What was said of which dead letters a command is about; the default is all."""

    partition: Annotated[
        list[int] | None,
        typer.Option(
            "--partition",
            "--shard",
            metavar="N",
            min=0,
            help="Only this partition; may be given several times.",
        ),
    ] = None
    offsets: Annotated[
        str | None,
        typer.Option(metavar="A..B", help="Only these offsets, both included; A.. or ..B."),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only records from this time on, as 2026-01-31T12:00:00Z, UTC without a zone, or "
            "in ms.",
        ),
    ] = None
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Only records up to this time, included; as --since."),
    ] = None
    reason: Annotated[
        list[str] | None,
        typer.Option(
            "--reason",
            metavar="WORD",
            help="Only with this word for the reason, as `show` has it; may be given several "
            "times.",
        ),
    ] = None
    schema_id: Annotated[
        list[int] | None,
        typer.Option(
            "--schema-id",
            metavar="ID",
            help="Only values of this schema of the registry; may be given several times.",
        ),
    ] = None


ALL: Final = DeadLetterFilters()


def with_filters(command: Callable[..., object]) -> Callable[..., object]:
    """Return a command with an option for each filter in the place of `filters`."""
    hints = get_type_hints(DeadLetterFilters, include_extras=True)
    names = [field.name for field in fields(DeadLetterFilters)]

    @wraps(command)
    def filtered(**arguments: Any) -> object:  # noqa: ANN401 - as typer calls it
        filters = DeadLetterFilters(**{name: arguments.pop(name) for name in names})
        return command(**arguments, **{_PARAMETER: filters})

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if parameter.name == _PARAMETER:
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            parameters += [
                inspect.Parameter(name, kind, default=None, annotation=hints[name])
                for name in names
            ]
        else:
            parameters.append(parameter)
    vars(filtered)["__signature__"] = inspect.Signature(parameters)
    filtered.__annotations__ = {each.name: each.annotation for each in parameters}
    return filtered
