"""Every engine over five versions of a schema: each finds the rows of a plain list."""
