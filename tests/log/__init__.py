"""The log used through its public names: scenarios, and the vocabulary they are told in."""
