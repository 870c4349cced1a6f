"""Records that could not be stored: how one is kept byte for byte, and the words for why."""
