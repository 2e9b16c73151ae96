"""End-to-end stories from a broken machine to the cards; some with bot processes, real SSH and a browser."""
