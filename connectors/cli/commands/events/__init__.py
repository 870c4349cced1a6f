"""Commands over typed events on the command line: `shardlog command`, and its shell."""
