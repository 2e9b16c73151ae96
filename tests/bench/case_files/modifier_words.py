"""The difficulties of cases in words."""

from collections.abc import Sequence

MEANS = {
    "R1": "old log lines of another trouble",
    "R2": "a flood of harmless kernel lines",
    "R3": "harmless corrected memory errors on a GPU",
    "R4": "the ticket blames what is innocent",
    "R5": "text written to mislead where a tenant can write",
    "R6": "a check that would show it fails",
    "R7": "another time zone and a clock that is off",
    "R8": "a small unrelated fault on another machine",
    "R9": "the log is cut",
    "R10": "another driver branch",
    "R11": "it shows in one look of three",
    "R12": "it heals while being looked for",
    "H01": "an Xid 79 from before the last boot",
    "H02": "thousands of harmless adapter complaints",
    "H03": "remapped rows that are fine",
    "H04": "no job log at all",
    "H05": "slower because the sequences are longer",
    "H06": "no fabric manager where none is needed",
    "H07": "a port that is down by design",
    "H08": "Xids that a user's Ctrl-C left",
}


def modifiers(rows: Sequence[str]) -> str:
    """Return a case's difficulties in words with their notation, or ""."""
    return "; ".join(f"{MEANS.get(text.partition('(')[0].partition('@')[0].strip(), text)} (`{text}`)" for text in rows)
