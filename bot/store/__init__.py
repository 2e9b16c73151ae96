"""Redis: connection, every key, indexes and caches, and the approval ledger opened on it."""
