"""The state of a guide's run between turns."""

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
    """A guide's run.

    Attributes:
        hosts: Folded names of the hosts.
        looked: Ids of the steps whose checks ran.
        began: When each wait began, by step id.
        rest: Whether all checks outside the guide ran, too.
        by: Ledger id of the requester, who may not approve the guide's cards; empty where approval is impossible.
    """

    id: str
    hosts: str = ""
    looked: tuple[str, ...] = ()
    began: Mapping[str, datetime] = field(default_factory=dict)
    rest: bool = False
    by: str = ""

    @classmethod
    def from_json(cls, row: Mapping[str, Any]) -> "GuideRunState | None":
        if not row.get("id"):
            return None
        began_by_step = {step: datetime.fromisoformat(time) for step, time in row["began"].items()}
        return cls(row["id"], row["hosts"], tuple(row["looked"]), began_by_step, row["rest"], row["by"])

    def to_json(self) -> dict[str, Any]:
        began_by_step = {step: time.isoformat() for step, time in self.began.items()}
        return {
            "id": self.id,
            "hosts": self.hosts,
            "looked": list(self.looked),
            "began": began_by_step,
            "rest": self.rest,
            "by": self.by,
        }


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
    requester = _get_requester(context)
    run = get_running_guide(context)
    reported_run = context.report.guide if context.report else None
    is_open = reported_run is not None and reported_run.is_open
    if run is not None and is_open and (run.id, run.hosts) == (guide.id, hosts):
        return replace(run, rest=False, by=requester)
    return GuideRunState(guide.id, hosts, by=requester)


def _get_requester(context: IncidentContext) -> str:
    team = context.origin.team if context.origin else ""
    user = context.item.user
    return f"{team}:{user}" if team and user else ""
