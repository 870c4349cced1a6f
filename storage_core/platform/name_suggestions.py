"""Which names were likely meant where some are not known, for the line that refuses them."""

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import Final

_LISTED_MAX: Final = 40
# Of more names, or longer ones, nobody asks what was meant, and to guess costs too much.
_GUESSED_MAX: Final = 8
_LENGTH_MAX: Final = 256


def likely_name(name: str, names: Iterable[str]) -> str | None:
    """Return the name most like one that is not known, whatever its case; None if none is."""
    if len(name) > _LENGTH_MAX:
        return None
    by_folded = {one.lower(): one for one in names}
    like = get_close_matches(name.lower(), by_folded, 1)
    return by_folded[like[0]] if like else None


def did_you_mean(unknown: Sequence[str], names: Collection[str]) -> str:
    """Return the end of a line that asks for the names most like some; empty if there are none."""
    guessed = (likely_name(name, names) for name in unknown[:_GUESSED_MAX])
    like = dict.fromkeys(filter(None, guessed))
    return f"; did you mean {', '.join(like)}?" if like else ""


def listed_names(names: Collection[str], most: int = _LISTED_MAX) -> str:
    """Return names with commas between; of many the first, and how many more there are."""
    first = ", ".join([*names][:most]) or "none"
    more = len(names) - most
    return f"{first} and {more} more" if more > 0 else first


def unknown_names(kind: str, unknown: Sequence[str], names: Collection[str]) -> str:
    """Return the line about names that are not known: which were likely meant, which there are."""
    meant = did_you_mean(unknown, names)
    return f"unknown {kind} {listed_names(unknown)}{meant}; there are {listed_names(names)}"
