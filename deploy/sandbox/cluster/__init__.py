"""A simulated GPU cluster: one state, rendered as what the real commands print, in process or behind real SSH.

The state of a node is a pure function of profile, seed and what happened to it (faults, healings, later remedies),
so the same case always prints the same bytes and no question asked of a node can change it.
"""
