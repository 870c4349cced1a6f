"""Other readers of a table: each finds the rows that the stream shows, at each stage."""
