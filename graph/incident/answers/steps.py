"""What comes next: the step that waits for people, and what an approval would do."""

from graph.incident.answers.known import Asked, clean, name_of, offer, say
from graph.incident.answers.people import brief, decision_lines
from graph.incident.concluded import Concluded
from graph.incident.fixes import yard_of
from graph.ladders.ends import describe, does
from graph.ladders.held import returns
from graph.ladders.preview import planned
from graph.state import Ladder
from tools.remedies import REMEDIES
from tools.remedies.row import Remedy

NOTHING_RUNS = "Nothing runs before somebody presses Approve."


def waiting(asked: Asked) -> list[Ladder]:
    """Fixes that are up for decision."""
    return [row for row in asked.case.ladders if row.open and row.waiting_for == "approval"]


async def what_now(asked: Asked) -> Concluded:
    """The step that waits for people, else what we wait for, else the cause's own next step."""
    case, report = asked.case, asked.case.report
    if case.lifecycle == "closed":
        return say(asked, ["Nothing: this incident is closed. Say “reopen” if it is not over."])
    if asks := waiting(asked):
        lines = [f"Decide on the card: {brief(row)}. “What happens if I approve?” tells more." for row in asks[:2]]
        lines += [f"… and {len(asks) - 2} more cards."] if len(asks) > 2 else []
        return say(asked, [*lines, *(report.by_hand[:2] if report else ())])
    if going := [row for row in case.ladders if row.open]:
        return say(asked, ["Nothing to do for you now.", *(f"• {describe(row, asked.title(row.label))}" for row in going[:3])])
    if report and report.questions:
        return say(asked, ["Answer what I asked:", *(f"• {question}" for question in report.questions)])
    if report and report.by_hand:
        return say(asked, ["This is for people to do:", *(f"• {row}" for row in report.by_hand[:4])])
    if report and report.next_step:
        return say(asked, [report.next_step, offer(asked, asked.guilty)])
    return say(asked, ["Nothing is open. Tell me anything new, or say `recheck`."])


async def on_approve(asked: Asked) -> Concluded:
    """What runs where, what must hold, how it is proved and what comes next."""
    asks = [row for row in waiting(asked) if not asked.said.hosts or row.target in asked.said.hosts] or waiting(asked)
    if not asks:
        going = [row for row in asked.case.ladders if row.open]
        later = f" {describe(going[0], asked.title(going[0].label))}." if going else ""
        return say(asked, [f"Nothing is up for decision now, so there is nothing to approve.{later}"])
    row = asks[0]
    action, remedy = planned(row, yard_of(asked.case, asked.ports)), REMEDIES[row.now.remedy] if row.now else None
    if action is None or remedy is None:
        return say(asked, [f"{brief(row)}; the card says the rest."])
    via = "" if action.via == action.target else f", by way of {action.via}"
    holds = [one.says for one in action.conditions] + (
        [f"the fault is still there: {clean(action.fault.says, 80)}"] if action.fault else []
    )
    lines = [
        f"If approved: {brief(row)}{via}. It affects {remedy.blast}.",
        f"Before it starts this must hold: {'; '.join(holds)}." if holds else "",
        f"Afterwards I look again with {', '.join(name_of(check) for check in action.proof)}; only that calls it mended."
        if action.proof
        else "",
        f"Then: {_next(row)}.",
        _back(remedy),
        f"{len(asks) - 1} more card{'s' * (len(asks) > 2)} wait{'s' * (len(asks) == 2)}; ask with a host's name." if len(asks) > 1 else "",
    ]
    live = await asked.ports.decisions(asked.case.id)
    lines += [line for one in live or () if one.open and one.approval == row.approval for line in decision_lines(one)]
    return say(asked, [*lines, NOTHING_RUNS])


def _next(row: Ladder) -> str:
    """The rung after the present one, as far as the plan goes."""
    later = [rung for rung in row.rungs[row.rung + 1 :] if row.now and rung.plan == row.now.plan and rung.part != "restore"]
    if later:
        return f"{does(row.model_copy(update={'rung': row.rungs.index(later[0], row.rung + 1)}))}, with a card of its own"
    if row.now and row.now.remedy == "run_check":
        return "the diagnosis is made anew with what it shows"
    back = "the node is offered back into service, and " if returns(row) else ""
    return f"if that helps {back}I look once more later; if not, something heavier or people"


def _back(remedy: Remedy) -> str:
    if remedy.undo:
        return f"The way back: {REMEDIES[remedy.undo].does.replace('{node}', 'the node')}, with a card of its own."
    return f"The way back: {remedy.back}." if remedy.back else ""
