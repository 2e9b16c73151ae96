"""Turns that only answer, from what is known: one handler an intent. Nothing is looked at."""
