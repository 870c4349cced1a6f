"""Settings as tests load them: a file, what the command line adds, and an environment."""

import pytest

from connectors.settings.loading import load_options

WHOLE = """
root = "/data"
topics = ["orders"]
[kafka]
"bootstrap.servers" = "broker:9092"
"""


@pytest.fixture
def load(tmp_path):
    def from_text(text=WHOLE, overrides=(), environment=None):
        path = tmp_path / "shardlog.toml"
        path.write_text(text)
        return load_options(path, overrides, environment or {})

    return from_text
