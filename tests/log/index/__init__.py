"""The sparse index: what it holds, how it adapts, and what becomes of it."""
