"""Turns that only answer, from what is known: one handler for each intent. No check runs."""
