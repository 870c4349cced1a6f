"""Fixtures of parts that only the lake has."""

from tests.log.fixtures import root

__all__ = ["root"]
