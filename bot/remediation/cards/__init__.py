"""Approval cards, edit and reject forms, outcomes and brakes, drawn from the ledger's record alone."""
