"""The images of parts: what a table has of them, read by engines that are not ours."""
