"""Parts whose files only the lake has: how files get there, and how their bytes come back."""
