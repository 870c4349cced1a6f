"""A worker's open files: all that the system allows, refused with the number if too few."""

import json
import resource
import subprocess
import sys

import pytest

from connectors.ingest.start_checks import (
    FILES_BESIDE_SHARDS,
    check_files,
    files_missing,
    raise_file_limit,
)
from storage_core import InvalidRequestError, files_needed


def test_soft_limit_is_raised_to_the_hard_one():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
    try:
        assert raise_file_limit() == before[1]
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_limit_that_just_suffices_lacks_nothing():
    needed = files_needed(200) + FILES_BESIDE_SHARDS
    assert files_missing(200, lambda: needed) is None
    assert files_missing(200, lambda: resource.RLIM_INFINITY) is None


def test_partitions_that_do_not_fit_are_refused_with_the_number():
    needed = files_needed(200) + FILES_BESIDE_SHARDS
    with pytest.raises(InvalidRequestError, match=rf"200 .* need {needed} .* have {needed - 1}"):
        check_files(200, lambda: needed - 1)


def test_worker_that_may_not_open_enough_files_does_not_start(tmp_path):
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (512, 512))\n"
        "from connectors.cli.main import run; run(sys.argv[1:])"
    )
    settings = [f"root={tmp_path}", "kafka.bootstrap.servers=127.0.0.1:1", "mode=static"]
    settings += ["topics=[]", "partitions=" + json.dumps({"t": list(range(200))})]
    arguments = [part for one in settings for part in ("--set", one)]
    ended = subprocess.run(
        [sys.executable, "-c", program, "worker", "--check", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2
    assert "200 partitions need 4560 open files; this process may have 512" in ended.stderr
