"""What every test shares: how properties are searched, and asserts that explain themselves.

Hypothesis searches at random on every run, in CI too; what it finds is replayed with the blob that
it prints, or with `--hypothesis-seed`. Disks stall, so no example has a deadline.
"""

import pytest
from hypothesis import settings

pytest.register_assert_rewrite("tests.lab", "tests.faults.ledger", "tests.model")

settings.register_profile("shardlog", deadline=None, print_blob=True)
settings.load_profile("shardlog")
