"""The cluster over time: ordered events and deeds give the state at any moment. May import cases, faults and machines."""
