"""The lake: parts as a Delta table on an object store, which every engine reads."""
