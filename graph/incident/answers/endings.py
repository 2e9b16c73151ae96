"""How people end, correct and rest an incident in its thread. A person's word is kept beside what was seen, and takes nothing of it away. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from graph.incident.answers.known import Asked, branch_of, cited, clean, say
from graph.incident.concluded import Concluded
from graph.incident.fixes import yard_of
from graph.incident.lifecycle import Came
from graph.ladders.ends import stopped, withdrawn
from graph.ladders.preview import planned_actions
from graph.state import Ladder, PersonsWord
from tools.inventory.ranges import fold

QUIET = timedelta(hours=2)
"""How long a thread rests where no time is named."""
MOST_DENIED = 6
MOST_QUIET = timedelta(days=7)


def _meant(asked: Asked) -> str:
    """What it is said to have been, in words; empty where nothing is named."""
    said = asked.said
    if said.labels:
        branch = branch_of(said.labels)
        return asked.title(branch) if len(said.labels) > 1 and branch else asked.title(said.labels[0])
    return asked.title(said.category) if said.category else ""


def _word(asked: Asked, denied: Sequence[str] = ()) -> PersonsWord:
    said = asked.said
    found = {row.label for row in asked.roots if row.label in said.labels or _under(row.label, said.category)}
    label = said.labels[0] if len(said.labels) == 1 else branch_of(said.labels) or said.category
    label = found.pop() if len(found) == 1 else label
    return PersonsWord(label=label, words=clean(said.text, 160), by=asked.case.item.user, denied=tuple(denied)[:MOST_DENIED])


async def correct(asked: Asked) -> Concluded:
    """The true cause by a person's word. What was seen stays; what is up for decision for another cause is taken back."""
    named, case = _meant(asked), asked.case
    found = [row.label for row in asked.roots]
    if not named:
        noted = "Noted that it was something else." if found else "Noted."
        asks = "What was it? For example “it was the cable”."
        return replace(say(asked, [f"{noted} {asks}", "What I saw stays as it is."]), correction=_word(asked))
    same = [row for row in asked.roots if row.label in asked.said.labels or _under(row.label, asked.said.category)]
    agreed = [f"{asked.title(row.label)}{cited(row)}" for row in same]
    if agreed:
        return replace(say(asked, [f"That is what I found: {agreed[0]}. Noted as confirmed by you."]), correction=_word(asked))
    kept = {(row.label, row.target) for row in case.ladders if row.label in asked.said.labels or _under(row.label, asked.said.category)}
    ladders = withdrawn(case.ladders, kept)
    gone = [row for row, before in zip(ladders, case.ladders, strict=True) if row != before]
    lines = [
        f"Noted as your word: {named}."
        + (f" I had found {asked.title(found[0])}{cited(asked.roots[0])}; what I saw stays as it is." if found else "")
    ]
    lines += [f"What was up for decision for it is taken back: {fold([row.target for row in gone])}."] if gone else []
    going = [row for row in ladders if row.open]
    lines += [f"What was begun goes on: {fold([row.target for row in going])}."] if going else []
    return _with(
        asked, replace(say(asked, [*lines, "Say “close” to close the incident with it."]), correction=_word(asked, found)), ladders
    )


def _under(label: str, branch: str) -> bool:
    return bool(branch) and (label == branch or label.startswith(f"{branch}."))


def _with(asked: Asked, told: Concluded, ladders: Sequence[Ladder]) -> Concluded:
    """The same with ladders that may have changed."""
    if list(ladders) == asked.case.ladders:
        return told
    actions = tuple(planned_actions(ladders, yard_of(asked.case, asked.ports)))
    return replace(told, ladders=list(ladders), report=told.report.model_copy(update={"actions": actions}))


async def close(asked: Asked) -> Concluded:
    """Closed with its cause by words, without a hand-off. Nothing more is proposed; what runs goes on; what is held is said."""
    case, named = asked.case, _meant(asked)
    if case.lifecycle == "closed":
        return say(asked, ["It is closed already. Say “reopen” if it is not over."])
    found = " and ".join(asked.title(row.label) for row in asked.roots[:2])
    cause = named or (asked.title(case.correction.label) if case.correction and case.correction.label else "") or found
    ladders = stopped(case.ladders, "the incident was closed")
    gone = [row for row, before in zip(ladders, case.ladders, strict=True) if row != before]
    held = [row.target for row in ladders if row.drained]
    lines = [f"Closed: {cause or 'no cause named'}."]
    lines += (
        [
            f"{fold(held)} stay{'s' * (len(set(held)) == 1)} drained: return {'it' if len(set(held)) == 1 else 'them'} by hand, or say “reopen”."
        ]
        if held
        else []
    )
    lines += ["What was up for decision is taken back."] if gone and not held else []
    ticket = case.ticket
    if ticket and ticket.state != "resolved":
        ticket = ticket.model_copy(update={"state": "resolved", "true_cause": cause[:400], "closed_by": case.item.user})
    told = say(asked, [*lines, "Say “reopen” if it comes back."], came=Came.CLOSED, ticket=ticket)
    denied = case.correction.denied if case.correction else ()
    return _with(asked, replace(told, correction=_word(asked, denied)) if named else told, ladders)


async def reopen(asked: Asked) -> Concluded:
    """Open again, as it was left; nothing is looked at."""
    if asked.case.lifecycle != "closed":
        return say(asked, [f"It is not closed: it is {asked.case.lifecycle.replace('_', ' ')}. Say `recheck` to look again."])
    ticket = asked.case.ticket
    if ticket and ticket.state == "resolved":
        ticket = ticket.model_copy(update={"state": "open"})
    came = Came.TO_PEOPLE if ticket and ticket.handed else Came.NOTHING_OPEN
    return say(asked, ["Open again. What I knew is kept; say `recheck` to look at the hosts now."], came=came, ticket=ticket)


async def pause(asked: Asked) -> Concluded:
    """Quiet in this thread until a time, for all but a mention."""
    now, named = asked.at, asked.said.at
    until = min(named, now + MOST_QUIET) if named and named > now else now + QUIET
    when = f"{until:%H:%M} UTC" if until.date() == now.date() else f"{until:%Y-%m-%d %H:%M} UTC"
    return replace(
        say(asked, [f"I am quiet here until {when}. Mention me and I answer all the same; cards that wait are not taken back."]),
        quiet_until=until,
    )
