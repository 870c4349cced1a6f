"""The language of commands: text to typed commands."""
