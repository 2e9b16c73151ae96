"""Tests of the benchmark: that its cases, arms, marks and reports say what they claim to."""
