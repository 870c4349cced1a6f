"""Tests of the language: forms, complaints, bounds."""
