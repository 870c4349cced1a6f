"""The hashes of xxhash, loaded when one is first asked for: who reads from a server has none.

`xxh3.xxh3_64_intdigest(data)` is xxhash's own function. Any thread may ask.
"""

from typing import TYPE_CHECKING

from storage_core.platform.extras import how_to_install

if TYPE_CHECKING:
    from xxhash import (
        xxh3_64,
        xxh3_64_digest,
        xxh3_64_hexdigest,
        xxh3_64_intdigest,
        xxh3_128,
        xxh3_128_digest,
        xxh3_128_hexdigest,
    )

    __all__ = [
        "xxh3_64",
        "xxh3_64_digest",
        "xxh3_64_hexdigest",
        "xxh3_64_intdigest",
        "xxh3_128",
        "xxh3_128_digest",
        "xxh3_128_hexdigest",
    ]
else:

    def __getattr__(name: str) -> object:
        if name.startswith("__"):
            message = f"module {__name__!r} has no attribute {name!r}"
            raise AttributeError(message)
        try:
            import xxhash  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            # Not an error of ours, which is a ValueError: callers take those for damage.
            raise ModuleNotFoundError(how_to_install("xxhash"), name="xxhash") from error
        function = globals()[name] = getattr(xxhash, name)
        return function
