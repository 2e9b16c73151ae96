"""What is told in numbers: how long work should take, and how right the diagnosis is. May import the floors below and what prints."""
