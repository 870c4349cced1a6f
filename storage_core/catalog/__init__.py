"""Catalog: what a stream is. Its root, its files, its options, where its rows come from."""
