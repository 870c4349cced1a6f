"""Beside publishing: the table is compared with the parts, and vacuumed."""
