"""What reads answer, from the writer and from other processes."""
