"""The check catalogue: one tuple of rows per subsystem module, joined here."""
