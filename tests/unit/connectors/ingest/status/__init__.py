"""Status."""
