"""Fixtures of publishing."""

from tests.log.fixtures import root

__all__ = ["root"]
