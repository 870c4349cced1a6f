"""The status of a root as its server tells it: `GET /status`."""
