"""Ordinary breakages of a real rack, one row each: what is done, how it is undone, what people report, and which answer is right."""
