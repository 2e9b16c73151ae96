"""Tests of the simulated cluster and of the local Slack that the stories are played on."""
