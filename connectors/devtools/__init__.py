"""A real broker and registry as child processes, from their public jars."""
