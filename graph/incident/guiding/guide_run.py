"""A run of a guide between the turns of an incident: which guide, on which hosts, what of it was looked at, since when it waits. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from graph.dialogue.commands import parse_guide_request
from graph.dialogue.intents import Intent
from graph.incident.context import IncidentContext
from kb.guides.guide import Guide, slugify_guide_name


@dataclass(frozen=True, slots=True)
class GuideRunState:
    """`looked`: steps whose looks were taken; `began`: waits that run; `rest`: all else is looked at as well by now."""

    id: str
    hosts: str = ""
    looked: tuple[str, ...] = ()
    began: Mapping[str, datetime] = field(default_factory=dict)
    rest: bool = False
    by: str = ""
    """Who called it, as the ledger knows people: whoever asks for a card does not approve it. Empty where nobody can approve anyhow."""

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "GuideRunState | None":
        """As the turn holds it; None where no guide runs."""
        if not row.get("id"):
            return None
        began = {name: datetime.fromisoformat(at) for name, at in row["began"].items()}
        return cls(row["id"], row["hosts"], tuple(row["looked"]), began, row["rest"], row["by"])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        began = {name: at.isoformat() for name, at in self.began.items()}
        return {"id": self.id, "hosts": self.hosts, "looked": list(self.looked), "began": began, "rest": self.rest, "by": self.by}


def get_requested_guide(case: IncidentContext) -> str:
    """What the item calls a guide by: a command in the thread, or a first message that is one; empty where it calls none."""
    if not case.looks_at_hosts:
        return ""
    if case.message.intent is Intent.RUN_GUIDE:
        return case.message.guide
    return slugify_guide_name(found[0]) if case.item.kind == "mention" and (found := parse_guide_request(case.item.text)) else ""


def get_running_guide(case: IncidentContext) -> GuideRunState | None:
    """The guide that runs in this incident."""
    return GuideRunState.from_json(case.turn.guide)


def start_or_resume_run(case: IncidentContext, guide: Guide, hosts: str) -> GuideRunState:
    """A run from here on: that of before where it is not at its end, with all else still to be looked at, or a new one."""
    before, told = get_running_guide(case), case.report.guide if case.report else None
    goes_on = before is not None and before.id == guide.id and before.hosts == hosts and told is not None and told.is_open
    by = _get_requester(case)
    return replace(before, rest=False, by=by) if before and goes_on else GuideRunState(guide.id, hosts, by=by)


def _get_requester(case: IncidentContext) -> str:
    team, user = case.origin.team if case.origin else "", case.item.user
    return f"{team}:{user}" if team and user else ""
