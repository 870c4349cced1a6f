"""The broker and the vocabulary of the broker tests, for what operators deploy."""

from tests.broker.conftest import broker, dev_stack, fetch, lab, producer

__all__ = ["broker", "dev_stack", "fetch", "lab", "producer"]
