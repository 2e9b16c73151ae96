"""Hostile texts in every place where a stranger can write, and plays of the whole product on them."""
