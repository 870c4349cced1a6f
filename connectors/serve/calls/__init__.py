"""What the calls of the protocol are answered."""
