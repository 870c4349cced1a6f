"""The frames of a subscription as server-sent events; made once for all who are told the same.

Frames come with what typed events need, which servers do without: import it where one is there.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

from connectors.output_formats.answer_values import answer_rows
from connectors.output_formats.json_text import json_text
from typed_events.subscriptions.frames import CaughtUp, Checkpoint, Frame, Rows

# So many texts of the same rows are kept, those of subscribers that stand at different places.
_TEXTS_MAX: Final = 8


def told_bytes(frames: Sequence[Frame], framed: Callable[[bytes], bytes], form: str) -> bytes:
    """Return frames as a piece of an answer.

    Args:
        frames: One at least.
        framed: Returns bytes as the answer has them.
        form: What `framed` makes of equal bytes is equal for the same form.
    """
    first, last = frames[0], frames[-1]
    if len(frames) != 2 or not isinstance(first, Rows) or not isinstance(last, Checkpoint):  # noqa: PLR2004 - a pair
        return framed("".join(map(text_of, frames)).encode())
    # As those who follow are told mostly. The checkpoint is around the rows' own, too.
    key = f"{form} {last.text}"
    piece: Any = first.made.get(key)
    if piece is None:
        piece = framed(f"{text_of(first)}{text_of(last)}".encode())
        _keep(first, key, piece)
    made: bytes = piece
    return made


def text_of(frame: Frame) -> str:
    """Return a frame as events."""
    if isinstance(frame, Rows):
        # Of one type, its checkpoints are those of all its subscribers.
        key = f"events around {frame.around}"
        text: Any = frame.made.get(key)
        if text is None:
            text = "".join(
                f"id: {checkpoint}\nevent: row\ndata: {row}\n\n"
                for checkpoint, row in zip(frame.checkpoints(), json_rows(frame), strict=True)
            )
            _keep(frame, key, text)
        made: str = text
        return made
    if isinstance(frame, Checkpoint):
        name, checkpoint = "checkpoint", frame.text
    else:
        name = "caught_up" if isinstance(frame, CaughtUp) else "heartbeat"
        checkpoint = frame.checkpoint
    return _checkpoint_event(name, checkpoint)


def json_rows(rows: Rows) -> list[str]:
    """Return rows as JSON."""
    made: Any = rows.made.get("json")
    if made is None:
        made = rows.made["json"] = [json_text(row) for row in answer_rows(rows.batch)]
    texts: list[str] = made
    return texts


def _keep(rows: Rows, key: str, made: object) -> None:
    if len(rows.made) < _TEXTS_MAX:
        rows.made[key] = made


@lru_cache(maxsize=_TEXTS_MAX)
def _checkpoint_event(name: str, checkpoint: str) -> str:
    """Return the event of a checkpoint: subscribers of a type stand at the same ones."""
    data = json_text({"checkpoint": checkpoint})
    return f"id: {checkpoint}\nevent: {name}\ndata: {data}\n\n"
