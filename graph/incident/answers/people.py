"""Who is on it, who takes it, who may approve. Names mention nobody."""

from collections.abc import Sequence

from graph.incident.answers.known import Asked, say
from graph.incident.concluded import Concluded
from graph.ladders.ends import does
from graph.ports import Decision
from graph.state import Ladder
from tools.inventory.ranges import fold

NOBODY = "Nobody is on it. Say “I take it”, or “assign it to @name”."


def owner_of(asked: Asked) -> str:
    """Who took the incident or was named for it; empty while it is nobody."""
    case = asked.case
    return case.owner or (case.ticket.taken_by if case.ticket else "")


async def who_is_on_it(asked: Asked) -> Concluded:
    """The owner, and what RackMedic itself waits for."""
    owner, waits = owner_of(asked), [row for row in asked.case.ladders if row.open and row.waiting_for == "approval"]
    doing = f"I wait for a decision: {waiting_for(waits)}." if waits else ""
    return say(asked, [f"{owner} is on it." if owner else NOBODY, doing])


async def take(asked: Asked) -> Concluded:
    """The one who says so is on it."""
    return _given(asked, asked.case.item.user, own=True)


async def assign(asked: Asked) -> Concluded:
    """Somebody else is."""
    if not asked.said.person:
        return say(asked, ["Whom? For example “assign it to @name”; or say “I take it”."])
    return _given(asked, asked.said.person, own=asked.said.person == asked.case.item.user)


async def waits(asked: Asked) -> Concluded:
    """Whoever has the ticket waits for others; who says so of one that nobody has, has it."""
    ticket, user = asked.case.ticket, owner_of(asked) or asked.case.item.user
    if ticket is None or ticket.state == "resolved":
        return say(asked, ["There is no ticket that could wait. Say “hand off” first, or press “Take”."])
    if ticket.state == "waiting":
        return say(asked, ["It waits already; say “I take it” when it goes on."])
    says = f"Noted: {user} has it, and it waits for others. Say “I take it” when it goes on."
    return say(asked, [says], owner=user, ticket=ticket.model_copy(update={"state": "waiting", "taken_by": user}))


def _given(asked: Asked, user: str, *, own: bool) -> Concluded:
    before, case = owner_of(asked), asked.case
    if not user:
        return say(asked, ["I could not tell who you are, so nothing was noted."])
    if before == user and not (own and case.ticket and case.ticket.state == "waiting"):
        return say(asked, [f"{user} is on it already."])
    says = f"{user} is on it{' from now on' if before else ''}."
    ticket = case.ticket
    if ticket and ticket.state != "resolved":
        ticket = ticket.model_copy(update={"state": "taken", "taken_by": user})
    return say(asked, [says, "" if own else "I mention nobody: tell them.", "I go on answering here."], owner=user, ticket=ticket)


async def who_may_approve(asked: Asked) -> Concluded:
    """The approvers of what is up for decision, how many it takes and until when."""
    live = await asked.ports.decisions(asked.case.id)
    waits = [row for row in asked.case.ladders if row.open and row.waiting_for == "approval"]
    if live is None:
        what = f"Up for decision: {waiting_for(waits)}. " if waits else ""
        return say(asked, [f"{what}Nobody can approve here: approvals are given in Slack, with the button on the card, by its approvers."])
    pending = [row for row in live if row.open]
    if not pending:
        return say(asked, ["Nothing is up for decision now, so there is nothing to approve."])
    return say(asked, [line for row in pending[:3] for line in decision_lines(row)])


def decision_lines(row: Decision) -> list[str]:
    """One decision that is open."""
    names = ", ".join(row.approvers[:8]) + (f" and {len(row.approvers) - 8} more" if len(row.approvers) > 8 else "")
    takes = f"it takes {row.quorum}" + (f", {', '.join(row.approved_by)} did" if row.approved_by else "")
    until = f", until {row.until:%H:%M} UTC" if row.until else ""
    return [f"{row.does}: {names or 'nobody is named as an approver'} ({takes}{until})."]


def waiting_for(rows: Sequence[Ladder]) -> str:
    """What is up for decision, in words."""
    return "; ".join(brief(row) for row in rows[:3]) + (f" and {len(rows) - 3} more" if len(rows) > 3 else "")


def brief(row: Ladder) -> str:
    """The present rung in a few words, with its host: `Drain gpu-003`, `Reboot the node (gpu-003)`."""
    words = does(row).partition(": ")[0]
    hosts = fold(row.target.split(","))
    return words if hosts in words else f"{words} ({hosts})"
