"""Runs: plan, set-up of a case, worker processes, journal and results."""
