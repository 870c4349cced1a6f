"""Scenarios of sealed rows: parts, what they promise, and SQL over them."""
