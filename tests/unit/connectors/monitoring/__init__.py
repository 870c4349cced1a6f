"""What operators watch; the worker is a figure."""
