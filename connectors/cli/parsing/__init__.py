"""What all declarations of commands share: options, the table of commands, groups."""
