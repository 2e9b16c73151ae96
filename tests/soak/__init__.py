"""A soak: real processes, many incidents, and everything that can be killed, filled or refused on the way. `python -m tests.soak`."""
