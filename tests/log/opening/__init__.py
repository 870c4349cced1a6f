"""How streams and shards begin, and what an opening makes of what it finds."""
