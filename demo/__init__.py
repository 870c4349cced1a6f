"""The main job end to end on one machine: `make demo`."""
