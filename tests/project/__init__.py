"""Tests of the repository: packages and their sizes, generated documents, and the coverage of checks."""
