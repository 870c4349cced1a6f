"""The model test: the log against plain lists that promise the same (see test_model.py)."""
