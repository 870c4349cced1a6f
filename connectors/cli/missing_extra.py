"""What to say of a library that a command lacks: the extra that brings all the command needs.

Who has the client of a server alone lacks the first library of the command line; told of that one,
he would be told of the store's next. Imports nothing of others; the process is about to end.
"""

from collections.abc import Sequence
from typing import Final

from storage_core.platform.extras import EXTRA_OF, how_to_install
from storage_core.remote.addresses import names_servers

_SERVER: Final = "--server"
# What commands need beside the store.
_MORE_OF: Final = {
    **dict.fromkeys(("worker", "produce", "group", "dlq"), "kafka"),
    "sql": "sql",
    "lake": "lake",
}
# The store brings these as well.
_OF_STORE: Final = ("cli", "avro", "store")


def what_is_missing(library: str, words: Sequence[str]) -> str | None:
    """Return what to say; None if no extra brings the library.

    Args:
        library: The library.
        words: The command, as typed behind `shardlog`.
    """
    is_of_client = any(
        word == _SERVER or word.startswith(_SERVER + "=") or names_servers(word) for word in words
    )
    is_command = bool(words) and not words[0].startswith("-")
    if EXTRA_OF.get(library) not in _OF_STORE or is_of_client or not is_command:
        return how_to_install(library)
    return how_to_install(library, _MORE_OF.get(words[0], "store"))
