"""Public names that a package loads when they are first asked for, each from its module.

A package lists what it exports twice: as imports that type checkers alone see, and as a table of
names by module. So whoever wants an error or an option waits for neither Arrow nor RocksDB nor
Kafka. What was asked for once is found as any other name, and the modules below are there as if all
had been imported. A test holds both lists against each other. Any thread may ask.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import ModuleType


def lazy_exports(
    package: str, exports: Mapping[str, Iterable[str]], extra: str | None = None
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return the `__getattr__` and the `__dir__` of a package that loads its names on demand.

    Args:
        package: The package's name.
        exports: The names that it exports, by the modules below it that have them.
        extra: What brings all that the package needs; who lacks some of it is told so.
    """
    modules = {name: module for module, names in exports.items() for name in names}
    below = {module.partition(".")[0] for module in exports}

    def exported(name: str) -> object:
        if name in below:
            return _imported(f"{package}.{name}", extra)
        if name not in modules:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message)
        value: object = getattr(_imported(f"{package}.{modules[name]}", extra), name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*modules, *below, *vars(sys.modules[package])})

    return exported, listed


def _imported(module: str, extra: str | None) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        library = (error.name or "").partition(".")[0]
        how_to_install = import_module("storage_core.platform.extras").how_to_install
        if how_to_install(library) in (None, error.msg):
            raise
        raise ModuleNotFoundError(how_to_install(library, extra), name=library) from error
