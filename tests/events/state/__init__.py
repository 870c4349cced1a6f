"""Types of state: rows that change, are deleted, and expire."""
