"""Methods of a facade that are another object's, one line each: `read = delegate("rows", ...)`."""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def delegate(
    part: str, method: Callable[Concatenate[Any, P], R]
) -> Callable[Concatenate[Any, P], R]:
    """Return a method that calls `method` of the object that an instance has as `part`.

    It has the signature and the documentation of `method`.
    """

    @wraps(method)
    def call(facade: object, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(getattr(facade, part), *args, **kwargs)

    return call
