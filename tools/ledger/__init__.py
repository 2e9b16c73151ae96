"""The approval ledger: who decided what about which action, and the only source of claims. Without a claim no remedy runs."""
