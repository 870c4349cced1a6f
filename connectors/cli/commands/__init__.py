"""What each command does; `parsers` declares its arguments under the same name."""
