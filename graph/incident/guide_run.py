"""State of a guide's run between turns: guide, hosts, steps checked, waits."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from graph.dialogue.commands import parse_guide_request
from graph.dialogue.intents import Intent
from graph.incident.context import IncidentContext
from kb.guides.guide import (
    Guide,
    slugify_guide_name,
)


@dataclass(frozen=True, slots=True)
class GuideRunState:
    """`looked`: steps checked; `began`: start of waits; `rest`: all other checks ran too."""

    id: str
    hosts: str = ""
    looked: tuple[str, ...] = ()
    began: Mapping[str, datetime] = field(default_factory=dict)
    rest: bool = False
    by: str = ""  # the requester's ledger id, who may not approve its cards; empty where approval is impossible

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "GuideRunState | None":
        if not row.get("id"):
            return None
        began_by_step = {name: datetime.fromisoformat(at) for name, at in row["began"].items()}
        return cls(row["id"], row["hosts"], tuple(row["looked"]), began_by_step, row["rest"], row["by"])

    def to_json(self) -> dict[str, Any]:
        began_by_step = {name: at.isoformat() for name, at in self.began.items()}
        return {"id": self.id, "hosts": self.hosts, "looked": list(self.looked), "began": began_by_step, "rest": self.rest, "by": self.by}


def get_requested_guide(context: IncidentContext) -> str:
    """Return the guide that the item names, by command or first message, or an empty string."""
    if not context.looks_at_hosts:
        return ""
    if context.message.intent is Intent.RUN_GUIDE:
        return context.message.guide
    request = parse_guide_request(context.item.text) if context.item.kind == "mention" else None
    return slugify_guide_name(request[0]) if request else ""


def get_running_guide(context: IncidentContext) -> GuideRunState | None:
    return GuideRunState.from_json(context.turn.guide)


def start_or_resume_run(context: IncidentContext, guide: Guide, hosts: str) -> GuideRunState:
    """Resume an open run of the same guide and hosts, or start one."""
    open_run, previous_run = get_running_guide(context), context.report.guide if context.report else None
    goes_on = (
        open_run is not None and open_run.id == guide.id and open_run.hosts == hosts and previous_run is not None and previous_run.is_open
    )
    requester = _get_requester(context)
    return replace(open_run, rest=False, by=requester) if open_run and goes_on else GuideRunState(guide.id, hosts, by=requester)


def _get_requester(context: IncidentContext) -> str:
    team, user = context.origin.team if context.origin else "", context.item.user
    return f"{team}:{user}" if team and user else ""
