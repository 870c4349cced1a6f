"""One store, written once: what docs/FORMAT.md says is what lies there."""
