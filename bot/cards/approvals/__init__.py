"""Cards about actions, drawn from the ledger's record alone: to decide, several on one, edits, how it ended, the brakes. May import the other
cards' blocks and words, and tools' values."""
