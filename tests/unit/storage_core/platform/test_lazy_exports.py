"""A package that loads its names on demand looks like one that has loaded them."""

import subprocess
import sys

import pytest

from tests.waiting import WAIT_MAX_S

ASKED = """
import sys
import storage_core

{statements}
print("pyarrow" in sys.modules)
"""


def said_by(statements: str) -> list[str]:
    program = ASKED.format(statements=statements)
    ran = subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        capture_output=True,
        text=True,
        timeout=WAIT_MAX_S,
    )
    return ran.stdout.split()


def test_module_below_is_there_as_type_checkers_say():
    statements = "print(storage_core.errors.ClosedError is storage_core.ClosedError)"
    assert said_by(statements) == ["True", "False"]
    assert said_by("print(storage_core.reader.__name__)") == ["storage_core.reader", "True"]


def test_all_that_is_listed_can_be_had():
    statements = "print([name for name in dir(storage_core) if not hasattr(storage_core, name)])"
    assert said_by(statements) == ["[]", "True"]


def test_what_is_listed_is_the_same_before_and_after_it_was_asked_for():
    statements = "names = set(dir(storage_core)); storage_core.errors; storage_core.ClosedError\n"
    assert said_by(statements + "print(set(dir(storage_core)) == names)") == ["True", "False"]


@pytest.mark.parametrize("name", ["Nothing", "nothing", "", "format.keys"])
def test_what_no_package_has_is_told_as_python_tells_it(name):
    statements = f"""
try:
    getattr(storage_core, {name!r})
except AttributeError as error:
    print(str(error) == "module 'storage_core' has no attribute {name!r}")
"""
    assert said_by(statements) == ["True", "False"]
