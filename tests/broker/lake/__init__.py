"""Workers and the lake."""
