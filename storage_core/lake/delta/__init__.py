"""What is particular to Delta: what a table must be, how it is made, what it says, what can go."""
