"""Agreement with published incidents, read from their text alone."""
