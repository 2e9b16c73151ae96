"""The action graph: ask, act, verify, one LangGraph thread for each action. The ledger decides what may run and records what ran."""
