"""The `shardlog` command, one small file a command."""
