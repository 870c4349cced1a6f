"""Commands over the table of a stream in the lake."""
