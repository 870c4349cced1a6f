"""Parameters of calls: their types and bounds, in a query string and in a JSON body.

    integer    a number; 64 bits                     text     letters
    integers   several, perhaps none                 texts    several
    seconds    a number of seconds                   truth    true or false
    keys       bytes in base64, several; null (in a query: ~) is that of rows without a key

A query repeats a name for each of several values; `name=,` is several of none. Left out, a
parameter has the default of the call. A body is one JSON object by the same names.
"""

import json
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, urlencode

from storage_core.errors import InvalidRequestError
from storage_core.format.keys import INT64_MAX, INT64_MIN
from storage_core.platform.name_suggestions import unknown_names

ParameterKind = Literal["integer", "integers", "seconds", "text", "texts", "truth", "keys"]

VALUES_MAX: Final = 1_000_000
# Paths may be so long, and be in names.
_TEXT_MAX: Final = 8192
_NULL_KEY: Final = "~"
_NO_VALUES: Final = ","
_SEVERAL: Final = ("integers", "texts", "keys")


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a call takes under a name.

    Attributes:
        name: Its name.
        kind: What it is.
        is_required: Whether a call without it is refused.
        least: The least number.
        most: The largest number.
        choices: The texts that there are; empty for any.
    """

    name: str
    kind: ParameterKind
    is_required: bool = False
    least: float = INT64_MIN
    most: float = INT64_MAX
    choices: tuple[str, ...] = ()


def encode_query(parameters: Iterable[Parameter], values: Mapping[str, object]) -> str:
    """Return the query string of these values; those that are None are left out."""
    pairs: list[tuple[str, str]] = []
    for parameter, value in _with_values(parameters, values):
        if parameter.kind not in _SEVERAL:
            pairs.append((parameter.name, _text_of(value)))
        elif not value:
            pairs.append((parameter.name, _NO_VALUES))
        else:
            pairs += [(parameter.name, _text_of(one)) for one in value]
    return urlencode(pairs)


def decode_query(parameters: Iterable[Parameter], query: str) -> dict[str, Any]:
    """Return the values of a query string.

    Raises:
        InvalidRequestError: One is unknown, missing, repeated, or none of its kind.
    """
    texts: dict[str, list[str]] = {}
    try:
        pairs = parse_qsl(
            query, keep_blank_values=True, strict_parsing=bool(query), errors="strict"
        )
    except ValueError as error:
        message = f"the query string cannot be read: {error}"
        raise InvalidRequestError(message) from error
    for name, text in pairs:
        texts.setdefault(name, []).append(text)
    by_name = {one.name: one for one in parameters}
    _refuse_unknown(texts, by_name)
    documents = {name: _document_of(by_name[name], given) for name, given in texts.items()}
    return _checked(by_name, documents)


def encode_body(parameters: Iterable[Parameter], values: Mapping[str, object]) -> bytes:
    """Return the JSON body of these values; those that are None are left out."""
    document: dict[str, object] = {}
    for parameter, value in _with_values(parameters, values):
        if parameter.kind == "keys":
            document[parameter.name] = [None if key is None else _text_of(key) for key in value]
        else:
            several = parameter.kind in _SEVERAL
            document[parameter.name] = list(value) if several else value
    return json.dumps(document, separators=(",", ":")).encode()


def decode_body(parameters: Iterable[Parameter], body: bytes) -> dict[str, Any]:
    """Return the values of a JSON body.

    Raises:
        InvalidRequestError: It is no JSON object, or one is unknown, missing or none of its kind.
    """
    try:
        document = json.loads(body or b"{}", parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        message = f"the body is no JSON: {error}"
        raise InvalidRequestError(message) from error
    if not isinstance(document, dict):
        message = "the body is no JSON object of parameters"
        raise InvalidRequestError(message)
    by_name = {one.name: one for one in parameters}
    _refuse_unknown(document, by_name)
    return _checked(by_name, document)


def _with_values(
    parameters: Iterable[Parameter], values: Mapping[str, object]
) -> list[tuple[Parameter, Any]]:
    by_name = {one.name: one for one in parameters}
    _refuse_unknown(values, by_name)
    return [(by_name[name], value) for name, value in values.items() if value is not None]


def _refuse_unknown(names: Iterable[str], by_name: Mapping[str, Parameter]) -> None:
    unknown = sorted(set(names) - set(by_name))
    if unknown:
        raise InvalidRequestError(unknown_names("parameters", unknown, sorted(by_name)))


def _text_of(value: object) -> str:
    if value is None:
        return _NULL_KEY
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _document_of(parameter: Parameter, texts: list[str]) -> object:
    """Return the values of a query as a body would have them."""
    kind = parameter.kind
    if kind in _SEVERAL:
        if texts == [_NO_VALUES]:
            return []
        if kind == "keys":
            return [None if text == _NULL_KEY else text for text in texts]
        return texts if kind == "texts" else [_number_of(parameter, text) for text in texts]
    if len(texts) > 1:
        message = f"{parameter.name} is given {len(texts)} times; it is one value"
        raise InvalidRequestError(message)
    text = texts[0]
    if kind in ("integer", "seconds"):
        return _number_of(parameter, text)
    if kind == "truth":
        return {"true": True, "false": False}.get(text, text)
    return text


def _number_of(parameter: Parameter, text: str) -> object:
    if len(text) > _TEXT_MAX:
        raise _unfit(parameter, text[:20] + "…")
    try:
        return float(text) if parameter.kind == "seconds" else int(text)
    except ValueError as error:
        raise _unfit(parameter, text) from error


def _checked(by_name: Mapping[str, Parameter], document: Mapping[str, object]) -> dict[str, Any]:
    values = {
        name: _CHECKS[by_name[name].kind](by_name[name], value)
        for name, value in document.items()
        if value is not None
    }
    missing = [one.name for one in by_name.values() if one.is_required and one.name not in values]
    if missing:
        message = f"parameters are missing: {', '.join(missing)}"
        raise InvalidRequestError(message)
    return values


def _integer(parameter: Parameter, value: object) -> int:
    if type(value) is not int or not parameter.least <= value <= parameter.most:
        raise _unfit(parameter, value)
    return value


def _seconds(parameter: Parameter, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _unfit(parameter, value)
    # Compared as it is: an integer may be too large for a float; NaN is within no bounds.
    if not parameter.least <= value <= parameter.most:
        raise _unfit(parameter, value)
    return float(value)


def _truth(parameter: Parameter, value: object) -> bool:
    if not isinstance(value, bool):
        raise _unfit(parameter, value)
    return value


def _text(parameter: Parameter, value: object) -> str:
    if not isinstance(value, str):
        raise _unfit(parameter, value)
    if len(value) > _TEXT_MAX:
        message = f"{parameter.name}: {len(value)} characters; {_TEXT_MAX} are the most"
        raise InvalidRequestError(message)
    if parameter.choices and value not in parameter.choices:
        raise _unfit(parameter, value)
    if not _is_unicode(value):
        raise _unfit(parameter, value)
    return value


def _is_unicode(text: str) -> bool:
    """Tell whether a text can be stored; JSON can name half a character."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _key(parameter: Parameter, value: object) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise _unfit(parameter, value)
    try:
        return b64decode(value, validate=True)
    except (Base64Error, ValueError) as error:
        raise _unfit(parameter, value) from error


def _several(check: Callable[[Parameter, object], Any]) -> Callable[[Parameter, object], Any]:
    def checked(parameter: Parameter, value: object) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _unfit(parameter, value)
        if len(value) > VALUES_MAX:
            message = f"{parameter.name}: {len(value)} values; {VALUES_MAX} are the most"
            raise InvalidRequestError(message)
        return tuple(check(parameter, one) for one in value)

    return checked


_CHECKS: Final[Mapping[ParameterKind, Callable[[Parameter, object], Any]]] = {
    "integer": _integer,
    "integers": _several(_integer),
    "seconds": _seconds,
    "text": _text,
    "texts": _several(_text),
    "truth": _truth,
    "keys": _several(_key),
}


def _unfit(parameter: Parameter, value: object) -> InvalidRequestError:
    text = repr(value)
    if len(text) > 80:  # noqa: PLR2004 - a line
        text = text[:60] + "…"
    if parameter.choices:
        wanted = f"one of {', '.join(parameter.choices)}"
    elif parameter.kind in ("integer", "integers", "seconds"):
        wanted = f"{parameter.kind} from {int(parameter.least)} to {int(parameter.most)}"
    else:
        wanted = {
            "keys": "a list of keys in base64",
            "texts": "a list of texts",
            "truth": "true or false",
        }.get(parameter.kind, "a text")
    message = f"{parameter.name}: {text} is not {wanted}"
    return InvalidRequestError(message)


def _refuse_constant(name: str) -> object:
    message = f"{name} is no number"
    raise ValueError(message)
