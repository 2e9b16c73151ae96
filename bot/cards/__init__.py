"""Block Kit parts that all cards use: blocks, buttons and text."""
