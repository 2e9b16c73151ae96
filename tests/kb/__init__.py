"""Tests of kb/: labels, catalogues, past incidents, logs and what is never repeated."""
