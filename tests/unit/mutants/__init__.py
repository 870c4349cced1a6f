"""Tests of what puts one-line bugs into the product."""
