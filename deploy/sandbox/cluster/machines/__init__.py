"""The simulated machines while nothing is wrong: their state, the job that trains on them, log noise and schedulers.

Imports no renderers, faults or repairs.
"""
