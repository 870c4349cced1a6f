"""What operators watch: metrics, health, version and settings, over HTTP."""
