"""Whether documents have their form: the list of modules, steps and failures, lengths."""
