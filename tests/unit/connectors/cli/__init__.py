"""The commands, each run in this process; what they print is what people read."""
