"""What a cluster is given: a Python that has little, and shardlog as one file.

python = lean_python(place)          pyspark, pyarrow, numpy, and what Avro takes: no RocksDB
archive = shipped_archive(place)     what `--py-files` ships
"""

import os
import sys
import venv
import zipfile
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
    """Make the file that is shipped: the wheel's packages, as a zip."""
    archive = place / "shardlog.zip"
    with zipfile.ZipFile(archive, "w") as writing:
        writing.write(ROOT / _MODULE, _MODULE)
        for package in _PACKAGES:
            for folder, _, names in os.walk(ROOT / package):
                for name in names:
                    path = Path(folder, name)
                    if path.suffix not in {".pyc", ".so", ".c", ".h"}:
                        writing.write(path, path.relative_to(ROOT))
    return archive
