"""LangGraph's checkpoints on core Redis commands, the fence around them, and whether a run was cut off. May import nothing else of the graph."""
