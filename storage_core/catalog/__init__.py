"""Catalog: what a stream is: its root, its files, its options, where its rows come from."""
