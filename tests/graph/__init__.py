"""Tests of graph/: how an incident is thought through, on a fleet that answers what it is told to."""
