"""The few Arrow calls that the published types do not describe."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from storage_core.platform.arrow import int_array, repeated

READ_ALL = """
import sys
from storage_core import StreamReader
with StreamReader.open(sys.argv[1], sys.argv[2]) as reader:
    assert sum(batch.num_rows for batch in reader.scan()) == 3
print("numpy.ma" in sys.modules)
"""


@pytest.mark.parametrize("kind", [np.int32, np.int64, np.uint16])
@pytest.mark.parametrize("step", [1, 2, -1])
def test_numpy_integers_become_an_array_of_their_type(kind, step):
    values = np.arange(10, dtype=kind)[::step]
    array = int_array(values)
    assert array.type == pa.from_numpy_dtype(np.dtype(kind))
    assert array.to_pylist() == values.tolist()


def test_no_integers_become_an_empty_array():
    assert int_array(np.empty(0, np.int64)).to_pylist() == []


def test_one_value_is_repeated():
    assert repeated(7, pa.uint16(), 3) == pa.array([7, 7, 7], pa.uint16())
    assert repeated(value=True, kind=pa.bool_(), count=2).to_pylist() == [True, True]


def test_first_read_of_a_process_does_without_masked_arrays(bench):
    bench.append([1, 2, 3])
    bench.close()
    command = [sys.executable, "-c", READ_ALL, str(bench.root), bench.name]
    here = Path(__file__).parents[4]
    ran = subprocess.run(command, cwd=here, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
