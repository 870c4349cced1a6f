"""A log that begins from the table of its stream."""
