"""What rows look like outside the log: text, CSV, Parquet and Arrow, on a terminal or in a file."""
