"""Tests of graph/: diagnosis, conversation and remediation on scripted fleets."""
