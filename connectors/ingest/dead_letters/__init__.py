"""Dead dead letters where they are kept: chosen, judged again and stored as rows, discarded."""
