"""One-line bugs for the product, and what puts them there one at a time: `make mutants`."""
