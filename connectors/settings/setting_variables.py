"""Settings in the environment: SHARDLOG_LINGER_MS, SHARDLOG_STREAM__JITTER_MS and so on.

Two underscores lead into a section; in names of librdkafka's an underscore stands for a dot, as in
SHARDLOG_KAFKA__GROUP_ID. A variable of the prefix that is no setting is an error, as
an unknown key is: a setting that is ignored without a word is found only when it was needed.
What other purposes use the prefix for is listed here, and nowhere else.
"""

from collections.abc import Collection, Iterator, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Final

from storage_core import InvalidRequestError

_PREFIX: Final = "SHARDLOG_"
_BETWEEN: Final = "__"
_DOTTED: Final = "kafka"
# Names, and patterns of names, behind the prefix.
_OTHER_PURPOSES: Final = (
    # The dev stack's places (connectors/dev_stack).
    "CACHE",
    "STATE",
    "IVY_SETTINGS",
    # How much the tests do (docs/TESTING.md).
    "EXAMPLES",
    "REQUIRE_FUSE",
    "MODEL_*",
    "FAULT_*",
    "TEST_*",
    "BROKER_KILLS",
    "BROKER_REBALANCES",
    "BROKER_RESTARTS",
    "BROKER_TRANSACTIONS",
    # What Kubernetes sets in every container for services named shardlog or shardlog-something.
    "*SERVICE_HOST",
    "*SERVICE_PORT*",
    "*PORT",
    "*PORT_[0-9]*",
)


def settings_of(
    environment: Mapping[str, str], known: Collection[str], sections: Collection[str]
) -> Iterator[tuple[str, list[str], str]]:
    """Yield the variable, the keys and the text of each setting, by name.

    Args:
        environment: Variables of the process.
        known: Keys there are, with dots between their parts.
        sections: Keys of sections that take any name.

    Raises:
        InvalidRequestError: A variable of our prefix is no setting.
    """
    for variable, text in sorted(environment.items()):
        name = variable.removeprefix(_PREFIX)
        if name == variable:
            continue
        keys = _keys(name)
        if ".".join(keys) in known or (keys[0] in sections and len(keys) > 1):
            yield variable, keys, text
        elif not any(fnmatchcase(name, other) for other in _OTHER_PURPOSES):
            raise _no_setting(variable, known)


def _keys(name: str) -> list[str]:
    """Return the keys a name leads to; those of librdkafka have dots, which no variable has."""
    section, between, rest = name.lower().partition(_BETWEEN)
    if section == _DOTTED and between:
        return [section, rest.replace(_BETWEEN, ".").replace("_", ".")]
    return name.lower().split(_BETWEEN)


def _no_setting(variable: str, known: Collection[str]) -> InvalidRequestError:
    names = [key.replace(".", _BETWEEN).upper() for key in known]
    message = f"{variable}: no such setting"
    nearest = get_close_matches(variable.removeprefix(_PREFIX).upper(), names, n=1)
    if nearest:
        message += f"; did you mean {_PREFIX}{nearest[0]}?"
    return InvalidRequestError(message)
