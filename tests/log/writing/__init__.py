"""What is appended and committed, by one caller and by many."""
