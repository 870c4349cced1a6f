"""Beginning a shard from its table: a log whose parts are the files that another one published."""
