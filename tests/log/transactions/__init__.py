"""All rows at once or none, once per id."""
