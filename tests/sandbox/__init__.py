"""Tests of the simulated cluster and the local Slack."""
