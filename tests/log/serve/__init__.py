"""The server over shards: its answers, what it refuses, its bounds, and faults in the middle."""
