"""The cluster over time: what happened and what was done, in order, give the state at any moment. May import cases, faults and machines."""
