"""Parts whose files only the lake has."""
