"""Settings: what is read, what is refused, what does not count."""
