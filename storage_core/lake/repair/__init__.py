"""Repair: what this machine, the table or its store has lost is made good from who has it still."""
