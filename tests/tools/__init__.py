"""Tests of tools/: checks, remedies, fleet, SSH, inventory, the node kit's scripts and the ledger."""
