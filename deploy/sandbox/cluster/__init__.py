"""A simulated GPU cluster: one state, rendered as the real commands' output, in process or behind real SSH.

A node's state is a pure function of profile, seed and events (faults, recoveries, remedies), so a case always prints
the same bytes and no query can change it.
"""
