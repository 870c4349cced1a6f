"""What a cluster is given: a Python that has little, and shardlog as one file.

python = lean_python(place)          pyspark, pyarrow, numpy, and what Avro takes: no RocksDB
archive = shipped_archive(place)     what `--py-files` ships

The wheel has no bytecode, and Python keeps none of what lies in a zip: each of a hundred processes
of the cluster would compile 300 modules, in a second of processor time. So it is added to what the
wheel has, as `docs/SPARK.md` advises.
"""

import os
import py_compile
import sys
import venv
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tests.tidy.tree import ROOT

_AVRO: Final = ("fastavro", "xxhash")
HAD: Final = ("pyspark", "py4j", "pyarrow", "numpy", *_AVRO)
LACKED: Final = ("rocksdict", "confluent_kafka", "duckdb", "pydantic", "typer", "prometheus_client")
# What PySpark has as a zip is compiled anew by each process.
_FIRST: Final = ROOT / "tests/spark/support/worker_path/sitecustomize.py"
# What pyproject.toml puts into the wheel.
_PACKAGES: Final = ("storage_core", "connectors", "streaming_jobs")
_MODULE: Final = "pyspark_shardlog.py"


def lean_python(place: Path) -> Path:
    """Make an environment whose packages are links to the ones that are here; return its Python."""
    venv.create(place, symlinks=True, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = place / "lib" / version / "site-packages"
    for name in HAD:
        spec = find_spec(name)
        assert spec is not None, name
        folders = spec.submodule_search_locations
        package = Path(folders[0] if folders else str(spec.origin))
        for part in (package, package.with_name(f"{name}.libs")):
            if part.exists():
                (packages / part.name).symlink_to(part)
    (packages / _FIRST.name).symlink_to(_FIRST)
    return place / "bin" / "python"


def shipped_archive(place: Path) -> Path:
    """Make the file that is shipped: the wheel's packages, as a zip, with their bytecode."""
    archive, draft = place / "shardlog.zip", place / "draft.pyc"
    with zipfile.ZipFile(archive, "w") as writing:
        for path in _shipped():
            name = path.relative_to(ROOT).as_posix()
            writing.write(path, name)
            if path.suffix == ".py":
                py_compile.compile(
                    str(path),
                    str(draft),
                    name,
                    doraise=True,
                    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
                )
                writing.write(draft, f"{name}c")
    return archive


def _shipped() -> Iterator[Path]:
    yield ROOT / _MODULE
    for package in _PACKAGES:
        for folder, _, names in os.walk(ROOT / package):
            paths = (Path(folder, name) for name in names)
            yield from (path for path in paths if path.suffix not in {".pyc", ".so", ".c", ".h"})
