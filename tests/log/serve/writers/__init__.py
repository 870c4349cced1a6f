"""Those who write over a server: their vocabulary, and the hostile ones."""
