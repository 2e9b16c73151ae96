"""Build one action, read its conditions, preview it, and run it through the node kit under a claim of the ledger.
May import the inventory, the node kit, checks, remedies and the ledger.
"""
