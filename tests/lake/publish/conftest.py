"""Fixtures of publishing."""

from tests.lake.publish.owner_fixtures import lake, owners
from tests.log.fixtures import root

__all__ = ["lake", "owners", "root"]
