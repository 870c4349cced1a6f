"""Transactions: rows staged, published once, finished by whoever opens the shards."""
