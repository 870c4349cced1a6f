"""Cold."""
