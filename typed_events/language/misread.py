"""What is wrong with a command, and where in its text."""


class Misread(Exception):  # noqa: N818 - parse.py makes a CommandError of it
    """Something of a command cannot be.

    Attributes:
        at: Where, as a place in the text; below 0 for the command as a whole.
        reason: What is wrong, in one line.
    """

    def __init__(self, at: int, reason: str) -> None:
        super().__init__(at, reason)
        self.at = at
        self.reason = reason
