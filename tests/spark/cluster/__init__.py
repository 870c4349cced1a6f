"""A standalone cluster whose machines do not see the root, and what Spark does on it."""
