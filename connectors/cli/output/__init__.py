"""What commands print: lines, tables, rows in a chosen format, progress bars."""
