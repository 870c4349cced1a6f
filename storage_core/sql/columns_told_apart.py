"""The columns of an answer as every output format can have them: no two of one name."""

from collections.abc import Iterable
from typing import Any, Final

from storage_core.sql.sql_casts import quoted

# What few formats have, or Arrow has without a part of it.
_AS_TEXT: Final = ("INTERVAL", "UNION", "BIT", "BIGNUM", "VARIANT", "TIME WITH TIME ZONE")


def told_apart(answer: Any) -> Any:  # noqa: ANN401 - a relation
    """Return an answer that every format can have: names once each, spans and the like as texts.

    Of two columns of one name, as a join of two streams has them, the second is `<name>_1`.
    """
    names = _once_each(answer.columns)
    texts = [str(kind).startswith(_AS_TEXT) for kind in answer.types]
    if names == list(answer.columns) and not any(texts):
        return answer
    shown = [
        f"CAST({quoted(name)} AS VARCHAR) AS {quoted(name)}" if is_text else quoted(name)
        for name, is_text in zip(names, texts, strict=True)
    ]
    named = ", ".join(map(quoted, names))
    return answer.query("answer", f"SELECT {', '.join(shown)} FROM answer AS of_query({named})")  # noqa: S608 - quoted


def _once_each(names: Iterable[str]) -> list[str]:
    """Return names of which no two are one to SQL."""
    given, taken, found = list(names), set[str](), []
    whole = {name.lower() for name in given}
    for name in given:
        shown, count = name, 0
        while shown.lower() in taken or (count and shown.lower() in whole):
            count += 1
            shown = f"{name}_{count}"
        taken.add(shown.lower())
        found.append(shown)
    return found
