"""What lies in parts: their columns, and rows of the log made again of them."""
