"""Publishing: what the table has, whatever is done, and whatever dies."""
