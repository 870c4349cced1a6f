"""Arguments and options of commands over the table of a stream in the lake."""
