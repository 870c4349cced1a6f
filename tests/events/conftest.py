"""Fixtures of the scenarios of events."""

from tests.log.fixtures import root

__all__ = ["root"]
