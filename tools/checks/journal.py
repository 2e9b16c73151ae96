"""What every check that asks journalctl has in common."""

from tools.checks.row import Format


def is_without_entries(text: str) -> bool:
    """Whether the journal holds no line of what was asked for."""
    return text.strip() == "-- No entries --"


WITHOUT_ENTRIES = Format("no entries", is_without_entries, lambda text: ())
"""All that journalctl prints where there is nothing to print: an answer, and no fact."""
