"""The Redis that survives, every key it holds, and the approval ledger opened on it. May import settings, refusals and tasks of the bot."""
