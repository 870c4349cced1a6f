"""What is wrong with a command, and where in its text."""

from lark import Token


class Misread(Exception):  # noqa: N818 - parse.py makes a CommandError of it
    """Something of a command cannot be.

    Attributes:
        place: Where, as a place in the text; None for the command as a whole.
        reason: What is wrong, in one line.
    """

    def __init__(self, place: Token | int | None, reason: str) -> None:
        super().__init__(reason)
        self.place = start_of(place) if isinstance(place, Token) else place
        self.reason = reason


def start_of(token: Token) -> int:
    """Return where a token begins."""
    assert token.start_pos is not None
    return token.start_pos
