"""What a machine, a table or its store has lost is made good from who has it still."""
