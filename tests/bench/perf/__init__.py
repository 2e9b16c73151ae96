"""How fast it is: each file measures one thing and prints a row (README.md says how)."""
