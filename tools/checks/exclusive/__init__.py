"""Checks that need GPUs or adapters for themselves, and the probes they send. May import what the other checks import: the row, facts, devices, kb."""
