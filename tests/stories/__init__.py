"""Whole ways from a broken machine to what people see; some with the bot as processes, real SSH and a browser."""
