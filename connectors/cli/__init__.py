"""The `shardlog` command: one file a command."""
