"""Goal: no message that librdkafka may hand over makes the compiled fetch read or write astray.

Method: the library is built with AddressSanitizer and UBSan together with `native_fuzz.c`, which
fakes librdkafka, hands over arbitrary messages, and holds every column against a plain model.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.faults.support.campaign import campaigns, fault_seed
from tests.tidy.tree import ROOT

NATIVE = ROOT / "connectors" / "kafka" / "native"
FUZZ = Path(__file__).with_name("native_fuzz.c")
ROUNDS = 1000
FLAGS = [
    *("-std=c11", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-rdynamic", "-pthread"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"),
    # Small columns, so that a result ends because a column is full.
    "-DCOLUMN_BYTES_MAX=2000",
]


@pytest.fixture(scope="module")
def fuzz(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built with what tells of a byte astray."""
    compiler = os.environ.get("CC", "cc")
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no C compiler {compiler!r}")
    program = tmp_path_factory.mktemp("native") / "fuzz"
    sources = map(str, [FUZZ, *sorted(NATIVE.glob("*.c"))])
    command = [compiler, *FLAGS, f"-I{NATIVE}", *sources, "-o", str(program), "-ldl"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if "asan" in built.stderr and "cannot find" in built.stderr:
        pytest.skip("the compiler has no AddressSanitizer")
    assert built.returncode == 0, built.stderr
    return program


@pytest.mark.parametrize("batches", campaigns("SHARDLOG_FAULT_NATIVE", few=1, many=1))
def test_arbitrary_messages_are_sound(fuzz: Path, batches: int) -> None:
    seed = fault_seed()
    command = [str(fuzz), str(seed), str(batches * ROUNDS)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"SHARDLOG_FAULT_SEED={seed}\n{ran.stderr}"
    assert ran.stdout.endswith(" queues: sound\n")
