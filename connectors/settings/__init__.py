"""The worker's settings: from file, environment and command line; checked before it starts."""
