"""Arguments and options of commands over typed events."""
