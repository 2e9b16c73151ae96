"""One action carried out: built, its conditions read, previewed, the node kit asked, run under a claim of the ledger. May import the inventory,
the node kit, checks, remedies and the ledger."""
