"""Tests of kb/: taxonomy, catalogues, past incidents, log parsing and redaction."""
