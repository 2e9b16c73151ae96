"""The approval ledger: who decided what about which action, and the only source of claims, without which no remedy runs. May import actions,
the clock and kb's redaction."""
