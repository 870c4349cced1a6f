"""Other commands against a real broker or registry, and the programs of examples/."""
