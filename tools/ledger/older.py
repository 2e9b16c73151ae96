"""What rows that were written before a field existed say in its place. New rows never need this: they have the field."""

import re
from collections.abc import Mapping

from tools.action import is_approval_id
from tools.ledger.states import State


def replaced_by(row: Mapping[str, str]) -> str:
    """The action that an edit put in this one's place. Until 2026-11-22 that stood in `says` alone."""
    if row.get("replaced_by") or row["state"] != State.SUPERSEDED:
        return row.get("replaced_by", "")
    found = re.fullmatch(r"edited by .*: (apr-[0-9a-f]{12})", row.get("says", ""), re.DOTALL)
    return found[1] if found else ""


def covered_by(row: Mapping[str, str]) -> str:
    """The action that made this one needless. Until 2026-11-22 that stood in `ended_by` alone, where a person's name may stand too."""
    if row.get("covered_by") or row["state"] != State.SUPERSEDED:
        return row.get("covered_by", "")
    ended_by = row.get("ended_by", "")
    return ended_by if is_approval_id(ended_by) else ""


def stopped_by(brakes: Mapping[str, str]) -> tuple[str, str]:
    """(who pulled the kill switch, why); both empty while it is off. Until 2026-11-22 both stood in one text, `who: why`, which decides
    still: a process of before beside ours leaves our fields as they are when it pulls the switch or lets go."""
    text, who, why = brakes.get("stop", ""), brakes.get("stopped_by", ""), brakes.get("stopped_why", "")
    if text != f"{who}: {why}":
        who, _, why = text.partition(": ")
    return who, why
