"""Stores that earlier code wrote, and the proof that today's code reads them and goes on with them."""
