"""Tiering: seal, compact, trim and rebuild by one course; obsolete files; the part builder."""
