"""The approval ledger: it records each decision about an action and issues the claims without which no remedy runs.
May import actions, the clock and kb's redaction.
"""
