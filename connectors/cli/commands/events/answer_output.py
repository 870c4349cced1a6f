"""Prints answers to commands, and says which exit code each is."""

from typing import Final

import typer

from connectors.cli.exit_codes import (
    EXIT_CONFLICT,
    EXIT_UNAVAILABLE,
    EXIT_UNEXPECTED,
    EXIT_USAGE,
)
from connectors.cli.output.printing import print_bytes
from connectors.output_formats.answer_forms import AnswerForm, answer_pieces, failure_line
from typed_events.answer import Answer, Status

_CODES: Final = {
    Status.OK: 0,
    Status.BAD_REQUEST: EXIT_USAGE,
    Status.NOT_FOUND: EXIT_USAGE,
    Status.CONFLICT: EXIT_CONFLICT,
    Status.BUSY: EXIT_UNAVAILABLE,
    Status.INTERNAL_ERROR: EXIT_UNEXPECTED,
}


def show(answer: Answer, form: AnswerForm) -> int:
    """Print an answer, a failure on standard error unless as JSON; return the exit code."""
    is_told = answer.status is Status.OK or form in ("json", "jsonl")
    try:
        if not is_told:
            typer.echo(f"shardlog: {failure_line(answer)}", err=True)
        if is_told or answer.schema is not None:
            printed = answer if is_told else Answer(schema=answer.schema, batches=answer.batches)
            for piece in answer_pieces(printed, form, is_cut=True):
                print_bytes(piece)
    finally:
        close = getattr(answer.batches, "close", None)
        if close is not None:
            close()
    return _CODES[answer.status]
