"""Guides as part of a turn: called by name or fitting what was reported; their looks come before all others, and their steps are told beside
what was found. May import what the rest of `graph.incident` may."""
