"""A run of a guide between the turns of an incident: which guide, on which hosts, what of it was looked at, since when it waits. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from graph.conversation.commands import guide_called
from graph.conversation.intents import Intent
from graph.incident.case import Case
from kb.guides.guide import Guide, slug


@dataclass(frozen=True, slots=True)
class GuideRunning:
    """`looked`: steps whose looks were taken; `began`: waits that run; `rest`: all else is looked at as well by now."""

    id: str
    hosts: str = ""
    looked: tuple[str, ...] = ()
    began: Mapping[str, datetime] = field(default_factory=dict)
    rest: bool = False
    by: str = ""
    """Who called it, as the ledger knows people: whoever asks for a card does not approve it. Empty where nobody can approve anyhow."""

    @classmethod
    def read(cls, row: Mapping[str, Any]) -> "GuideRunning | None":
        """As the turn holds it; None where no guide runs."""
        if not row.get("id"):
            return None
        began = {name: datetime.fromisoformat(at) for name, at in row["began"].items()}
        return cls(row["id"], row["hosts"], tuple(row["looked"]), began, row["rest"], row["by"])

    def write(self) -> dict[str, Any]:
        """Plain JSON."""
        began = {name: at.isoformat() for name, at in self.began.items()}
        return {"id": self.id, "hosts": self.hosts, "looked": list(self.looked), "began": began, "rest": self.rest, "by": self.by}


def wished_guide(case: Case) -> str:
    """What the item calls a guide by: a command in the thread, or a first message that is one; empty where it calls none."""
    if not case.looks:
        return ""
    if case.message.intent is Intent.RUN_GUIDE:
        return case.message.guide
    return slug(found[0]) if case.item.kind == "mention" and (found := guide_called(case.item.text)) else ""


def running_in(case: Case) -> GuideRunning | None:
    """The guide that runs in this incident."""
    return GuideRunning.read(case.turn.guide)


def begun(case: Case, guide: Guide, hosts: str) -> GuideRunning:
    """A run from here on: that of before where it is not at its end, with all else still to be looked at, or a new one."""
    before, told = running_in(case), case.report.guide if case.report else None
    goes_on = before is not None and before.id == guide.id and before.hosts == hosts and told is not None and told.open
    by = _asker(case)
    return replace(before, rest=False, by=by) if before and goes_on else GuideRunning(guide.id, hosts, by=by)


def _asker(case: Case) -> str:
    team, user = case.origin.team if case.origin else "", case.item.user
    return f"{team}:{user}" if team and user else ""
