"""The page of the server: one HTML document, put together from the files beside this one."""
