"""The worker's settings, read: one TOML file, environment over file, command line over both.

    root = "/var/lib/shardlog"
    topics = ["telemetry"]              # or: topic_pattern = "^telemetry[.].*"
    [kafka]                             # librdkafka's own names, passed through
    "bootstrap.servers" = "localhost:9092"
    "group.id" = "shardlog"
    [stream]                            # of streams that are not there yet
    primary = "timestamp"
    retention_hours = 168
    [schema.registry]                   # names of Confluent's clients, passed through
    url = "http://localhost:8081"
    [on_fault]                          # or: on_fault = "stop", for all kinds
    foreign = "stop"

Environment: SHARDLOG_ROOT, SHARDLOG_STREAM__JITTER_MS, SHARDLOG_KAFKA__GROUP_ID and so on. Two
underscores lead into a section; in names of librdkafka's, and of those below schema.registry, an
underscore stands for a dot. A section as JSON, such as SHARDLOG_KAFKA, adds to what stands below
it. KAFKA_BOOTSTRAP stands for kafka."bootstrap.servers".

An unknown key is an error, and so is a variable of our prefix that names no setting: if it were
ignored, its mistake would show only when the setting is needed. Other uses of the prefix are listed
here, and nowhere else.

A text, in a variable or behind `--set`, means what JSON says it does; a table or a list may be
written as in the file too; anything else is text. The value of one of librdkafka's settings is
handed on to the letter, quotes around it apart: a password of digits is no number.
"""

import json
import os
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from connectors.settings.checks import BOOTSTRAP, first_name
from connectors.settings.dead_letter_settings import DeadLetterSettings
from connectors.settings.lake_settings import LakeSettings
from connectors.settings.likely_keys import in_environment, in_file, keys_beside, likely_key
from connectors.settings.operations_settings import LogSettings, MetricsSettings
from connectors.settings.options import ENVIRONMENT_BOOTSTRAP, FaultSettings, WorkerOptions
from connectors.settings.schema_settings import SchemaSettings
from connectors.settings.serve_settings import PageSettings, WorkerServeSettings
from connectors.settings.stream_settings import StreamSettings
from storage_core import InvalidRequestError
from storage_core.platform.name_suggestions import listed_names

_ON_FAULT: Final = "on_fault"
# Sections whose keys come together from file, environment and command line.
_SCHEMA: Final = "schema"
_REGISTRY: Final = "registry"
_LAKE: Final = "lake"
_OPTIONS: Final = "options"
_ADDED_TO: Final = (
    "kafka",
    "stream",
    "metrics",
    "serve",
    "page",
    "log",
    "levels",
    "dead_letters",
    _SCHEMA,
    _REGISTRY,
    _LAKE,
    _OPTIONS,
    _ON_FAULT,
)
_OF_ANY_KEYS: Final = ("kafka", "partitions")
_TABLES: Final = (
    *("kafka", "stream", "metrics", "serve", "page", "log", "dead_letters", _SCHEMA, "partitions"),
    _LAKE,
)
_TABLES_WITHIN: Final = (("log", "levels"), (_SCHEMA, _REGISTRY), (_LAKE, _OPTIONS))
# Tables of names that are not ours, whose values are taken as they are written.
_TAKEN_AS_TEXT: Final = ((_SCHEMA, _REGISTRY), (_LAKE, _OPTIONS))
# Those that take a table, a list or a word.
_MIXED: Final = (_ON_FAULT, "topics")
# What is said of kinds of faults for which pydantic has words of its own.
_EXTRA: Final = "extra_forbidden"
_SAID: Final = {_EXTRA: "unknown key", "tuple_type": "write a list, such as [0, 1]"}

_PREFIX: Final = "SHARDLOG_"
_BETWEEN: Final = "__"
_DOTTED: Final = "kafka"
# Names, and patterns of names, behind the prefix.
_OTHER_PURPOSES: Final = (
    # The dev stack's places (connectors/devtools).
    "CACHE",
    "STATE",
    "IVY_SETTINGS",
    # How clients ask a server (storage_core/remote/options.py).
    "SERVER_TOKEN_FILE",
    "SERVER_TOKEN",
    "SERVER_CA_FILE",
    # How a lake's store is reached (storage_core/lake/options_file.py).
    "LAKE_OPTIONS_FILE",
    # Where bytes are kept of parts that only the lake has (storage_core/lake/absent/lake_parts.py).
    "LAKE_CACHE",
    "LAKE_CACHE_BYTES",
    # How much the benchmarks do.
    "BENCH_*",
    # How much the tests do (docs/TESTING.md).
    "EVERY_CASE",
    "EXAMPLES",
    "REQUIRE_CHROMIUM",
    "REQUIRE_FUSE",
    "INTERRUPT_EVERY",
    "MODEL_*",
    "FAULT_*",
    "TEST_*",
    "BROKER_KILLS",
    "BROKER_LAKE",
    "BROKER_LETTERS",
    "BROKER_REBALANCES",
    "BROKER_OPERATIONS",
    "BROKER_RESTARTS",
    "BROKER_TRANSACTIONS",
    # What Kubernetes sets in every container for services named shardlog or shardlog-something.
    "*SERVICE_HOST",
    "*SERVICE_PORT*",
    "*PORT",
    "*PORT_[0-9]*",
)


def load_options(
    path: Path | None,
    overrides: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> WorkerOptions:
    """Return the settings of file, environment and command line together.

    Args:
        path: The TOML file, if there is one.
        overrides: `key=value` from the command line; dots lead into sections, except in the
            names below `kafka.`, which have dots of their own. `topics` may be names with commas
            between.
        environment: Variables of the process.

    Raises:
        InvalidRequestError: Something is unknown, missing or of the wrong kind, by name.
    """
    settings: dict[str, Any] = {} if path is None else _read(path)
    variables = os.environ if environment is None else environment
    if ENVIRONMENT_BOOTSTRAP in variables:
        _put(settings, ["kafka", BOOTSTRAP], variables[ENVIRONMENT_BOOTSTRAP])
    for variable, keys, text in _settings_of(variables, _known_keys()):
        _put(settings, keys, _parsed(keys, text, variable))
    for override in overrides:
        name, equals, text = override.partition("=")
        if not equals:
            # What was meant as its value may be a secret.
            name = re.split(r"[^\w.-]", override, maxsplit=1)[0]
            message = f"--set {name}...: is not of the form key=value"
            raise InvalidRequestError(message)
        section, dot, rest = name.partition(".")
        has_dots = section in _OF_ANY_KEYS
        keys = [section, rest] if dot and has_dots else name.split(".")
        if section == _SCHEMA:
            # Names of the registry's have dots of their own.
            keys = name.split(".", 2)
        _put(settings, keys, _parsed(keys, text, f"--set {name}"))
    try:
        return WorkerOptions.model_validate(settings)
    except ValidationError as error:
        raise InvalidRequestError(_one_line(error, settings), path=path) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except FileNotFoundError as error:
        message = "no such configuration file"
        raise InvalidRequestError(message, path=path) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        message = f"the configuration cannot be read: {error}"
        raise InvalidRequestError(message, path=path) from error


def _put(settings: dict[str, Any], keys: Sequence[str], value: object) -> None:
    if keys[0] == _ON_FAULT and isinstance(settings.get(_ON_FAULT), str):
        # One word stands for all kinds; what comes may be of one of them.
        settings[_ON_FAULT] = dict.fromkeys(FaultSettings.model_fields, settings[_ON_FAULT])
    for key in keys[:-1]:
        inner = settings.setdefault(key, {})
        if not isinstance(inner, dict):
            message = f"{key}: is not a section"
            raise InvalidRequestError(message)
        settings = inner
    if tuple(keys[:-1]) == (_LAKE, _OPTIONS):
        # Stores know no difference of case: what was there stands below, however it is spelled.
        for name in [name for name in settings if name.lower() == keys[-1].lower()]:
            del settings[name]
    before = settings.get(keys[-1])
    if keys[-1] in _ADDED_TO and isinstance(before, dict) and isinstance(value, dict):
        settings[keys[-1]] = {**before, **value}
    else:
        settings[keys[-1]] = value


def _known_keys() -> list[str]:
    sections: dict[str, type[BaseModel]] = {
        "stream": StreamSettings,
        "metrics": MetricsSettings,
        "serve": WorkerServeSettings,
        "page": PageSettings,
        "log": LogSettings,
        _LAKE: LakeSettings,
        "dead_letters": DeadLetterSettings,
        _SCHEMA: SchemaSettings,
        "on_fault": FaultSettings,
    }
    inner = [f"{key}.{name}" for key, section in sections.items() for name in section.model_fields]
    names = [each.alias or name for name, each in WorkerOptions.model_fields.items()]
    return [*names, *inner]


def _one_line(error: ValidationError, settings: Mapping[str, Any]) -> str:
    """Return all complaints in one line, each with the key it is about."""
    complaints = []
    for item in error.errors(include_url=False, include_input=False):
        where = ".".join(str(part) for part in item["loc"])
        problem = _SAID.get(item["type"], item["msg"].removeprefix("Value error, "))
        if item["type"] == _EXTRA:
            problem += _meant(_whole_name(item["loc"], settings))
        complaints.append(f"{where}: {problem}" if where else problem)
    return "; ".join(complaints)


def _meant(key: str) -> str:
    """Return which setting an unknown key is likely meant for, as people write it."""
    settings = _known_keys()
    likely = likely_key(key, settings)
    beside = keys_beside(key, settings)
    meant = f"; did you mean {in_file(likely)}?" if likely is not None else ""
    return meant or (f"; there are {listed_names(beside)}" if beside else "")


def _whole_name(keys: Sequence[object], settings: Mapping[str, Any]) -> str:
    """Return a key with what its dots were taken for: `auto.offset.reset` of a table `auto`."""
    inner: object = settings
    for key in keys:
        inner = inner.get(key) if isinstance(inner, Mapping) else None
    return first_name(".".join(map(str, keys)), inner)


def _settings_of(
    environment: Mapping[str, str], settings: Collection[str]
) -> Iterator[tuple[str, list[str], str]]:
    """Yield the variable, the keys and the text of each setting, by name.

    Raises:
        InvalidRequestError: A variable of our prefix is no setting.
    """
    for variable, text in sorted(environment.items()):
        name = variable.removeprefix(_PREFIX)
        if name == variable:
            continue
        keys = _keys(name)
        is_of_table = keys[0] in _OF_ANY_KEYS and len(keys) > 1
        if ".".join(keys) in settings or is_of_table or tuple(keys[:2]) in _TABLES_WITHIN:
            yield variable, keys, text
        elif not any(fnmatchcase(name, other) for other in _OTHER_PURPOSES):
            raise _no_setting(variable, settings)


def _keys(name: str) -> list[str]:
    """Return the keys a name leads to; those of librdkafka have dots, which no variable has."""
    section, between, rest = name.lower().partition(_BETWEEN)
    if section == _DOTTED and between:
        return [section, rest.replace(_BETWEEN, ".").replace("_", ".")]
    inner, between, rest = rest.partition(_BETWEEN)
    if [section, inner] == [_SCHEMA, _REGISTRY] and between:
        return [section, inner, rest.replace(_BETWEEN, ".").replace("_", ".")]
    return name.lower().split(_BETWEEN)


def _no_setting(variable: str, settings: Collection[str]) -> InvalidRequestError:
    key = variable.removeprefix(_PREFIX).lower().replace(_BETWEEN, ".")
    likely = likely_key(key, settings)
    meant = "" if likely is None else f"; did you mean {_PREFIX}{in_environment(likely)}?"
    return InvalidRequestError(f"{variable}: no such setting{meant}")


def _parsed(keys: Sequence[str], text: str, where: str) -> object:
    """Return what a setting's text means; of topics, names with commas between as a list.

    Args:
        keys: Where the setting stands.
        text: What was given.
        where: The variable or the option, for what is said of it.

    Raises:
        InvalidRequestError: A table was meant, or is needed, and this is none.
    """
    if keys == ["topics"] and not text.lstrip().startswith("["):
        return [name.strip() for name in text.split(",")]
    try:
        parsed = json.loads(text)
    except ValueError as error:
        parsed = _written_as_in_the_file(keys, text, where, error)
    if tuple(keys[:-1]) in _TAKEN_AS_TEXT or (keys[0] == _DOTTED and len(keys) > 1):
        is_number = type(parsed) is int and str(parsed) == text
        return parsed if is_number or isinstance(parsed, str) else text
    if _is_one_of(keys, _TABLES) and not isinstance(parsed, dict):
        message = f'{where}: takes a table, as {{"name": "value"}}; or name one setting of it'
        raise InvalidRequestError(message)
    return parsed


def _written_as_in_the_file(
    keys: Sequence[str], text: str, where: str, error: ValueError
) -> object:
    if not _is_one_of(keys, (*_TABLES, *_MIXED)) or not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        message = f"{where}: is not JSON: {error}"
        raise InvalidRequestError(message) from error


def _is_one_of(keys: Sequence[str], names: Collection[str]) -> bool:
    """Tell whether a setting is one of these, or the table within a section."""
    return (len(keys) == 1 and keys[0] in names) or tuple(keys) in _TABLES_WITHIN
