"""`shardlog worker` against a real broker: what it stores, refuses, logs and survives."""
