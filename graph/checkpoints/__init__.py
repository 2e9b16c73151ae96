"""LangGraph checkpoints on core Redis commands, fenced by a lease; whether a run was interrupted."""
