"""Tests of the benchmark's cases, arms, marks and reports."""
