"""Reasoning: from a ticket to a proven diagnosis. Imports `tools` and `kb`, nothing above."""
