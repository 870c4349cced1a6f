"""Other people's stream processors, each a script for an interpreter of its own."""
