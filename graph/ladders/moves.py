"""How ladders move: what became of an action, or of a wait, leads to the next rung, a heavier one, or to people. Pure.

The next rung comes only after the one before is complete. What fails its proof is followed by something heavier, never by the way back.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from graph.ladders.build import EMPTIES, Yard, asking, build_ladder, enter
from graph.ladders.ends import ended, settled, stays
from graph.ladders.held import on_the_way_back, returning
from graph.ladders.next_rung import anew, ask_again, heavier, next_rung, present, waiting, watch
from graph.state import Ladder, WaitingFor

GOOD = frozenset({"passes_now", "cured"})
LONGEST_NAME = 60
STILL_OUT = "the scheduler still has it out of service"
RETURN = "return"
"""Somebody asked for a node that is held."""
IN_SERVICE, UNASKED, ASKED = "in_service", "unasked", "asked"
"""Of a node that is held while its fix rests: somebody else returned it; its scheduler could not be asked whether; it could again."""
RESULTS = frozenset({"done", "failed", "unknown", "denied", "expired", "superseded", "revoked"})
TEXTS = ("approval", "ladder", "outcome", "says", "replaced_by", "by")


@dataclass(frozen=True, slots=True)
class News:
    """Something that happened to an action or to a wait. `kind`: a terminal state of the ledger, or what a reading found."""

    kind: str
    approval: str = ""
    ladder: str = ""
    outcome: str = ""
    """What the proof said; for a superseded action why it was (`covered`, `host_key` …)."""
    says: str = ""
    ran: bool = True
    """False where the command never began."""
    replaced_by: str = ""
    since: datetime | None = None
    """When it was claimed."""
    seen: datetime | None = None
    """When a look found it."""
    by: str = ""
    """Who approved it, by name; told of a drain."""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "News":
        """From an inbox item; what we do not know is left out."""
        texts = {name: data[name] for name in TEXTS if isinstance(data.get(name), str)}
        since, seen = (datetime.fromisoformat(text) if (text := data.get(name)) else None for name in ("since", "seen"))
        return cls(str(data.get("event", "")), ran=bool(data.get("ran", True)), since=since, seen=seen, **texts)


Move = Callable[[Ladder, News, Yard], Ladder]


def climb(ladders: Sequence[Ladder], news: News, yard: Yard) -> list[Ladder]:
    """All ladders of the incident after news. One that is about no present rung changes nothing."""
    found = [moved(row, news, yard) if _about(row, news) else row for row in ladders]
    for row in [row for row in found if row.outcome == "recurred" and _about(row, news)]:
        again = _from_next_plan(row, found, yard)
        found = [*found, again] if again else [ended(row, "ticket", row.says) if other is row else other for other in found]
    return settled(found, yard)


def _about(ladder: Ladder, news: News) -> bool:
    if news.ladder:
        return ladder.id == news.ladder
    return bool(news.approval) and ladder.approval == news.approval


def moved(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    """One ladder after news of its own."""
    if news.kind in OF_HOLDS:
        return OF_HOLDS[news.kind](ladder, news, yard) if ladder.drained else ladder
    rule = MOVES.get(news.kind)
    if rule is None or ladder.now is None or _about_nothing(ladder, news):
        return ladder
    if news.since and ladder.now.part == "fix":
        ladder = ladder.model_copy(update={"since": news.since})
    if ladder.outcome and not _revives(ladder, news):
        return _after_the_end(ladder, news)
    if rule.waiting not in (None, ladder.waiting_for):
        return ladder
    return rule.move(ladder.model_copy(update={"outcome": ""}), news, yard)


def _about_nothing(ladder: Ladder, news: News) -> bool:
    """The result of an action while none is put up, or Ask again on an old card of a ladder that goes on: it would pass a wait by."""
    if news.kind == RETURN:
        return ladder.open or not ladder.drained
    if news.kind == "again":
        return not ladder.outcome and not (news.approval and news.approval == ladder.approval)
    return news.kind in RESULTS and not ladder.approval


def _revives(ladder: Ladder, news: News) -> bool:
    """Somebody asks again, or for the node, or says what became of an action in doubt."""
    if news.kind == RETURN:
        return True
    if news.kind == "again":
        return ladder.outcome in ("undecided", "denied", "stopped", "withdrawn")
    return ladder.outcome == "unknown" and news.kind in ("done", "failed")


def _after_the_end(ladder: Ladder, news: News) -> Ladder:
    """What still ran when people took over changes what is held, and nothing else."""
    remedy = ladder.now.remedy if ladder.now and news.kind == "done" else ""
    if remedy == "drain_node":
        return _drained(ladder, news)
    if remedy == "resume_node":
        return _returned(ladder)
    proved = bool(remedy) and ladder.now is not None and ladder.now.part == "fix" and news.outcome in GOOD
    return ladder.model_copy(update={"proven": ladder.approval}) if proved else ladder


def _drained(ladder: Ladder, news: News) -> Ladder:
    return ladder.model_copy(update={"drained": True, "drained_at": news.since, "drained_by": news.by[:LONGEST_NAME]})


def _returned(ladder: Ladder) -> Ladder:
    return ladder.model_copy(update={"drained": False, "drained_at": None, "drained_by": "", "unasked": None})


def _done(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    rung = present(ladder)
    if rung.part == "prepare":
        if news.outcome == "worse":
            return ended(ladder, "ticket", news.says)
        return next_rung(_drained(ladder, news) if rung.remedy == "drain_node" else ladder, yard)
    if rung.remedy == "run_check":
        return ended(ladder, "looked", news.says or "the check has answered")
    if rung.part == "restore":
        return _back_in_service(ladder, yard) if news.outcome in GOOD else ended(ladder, "ticket", news.says or STILL_OUT)
    if news.outcome not in GOOD:
        return heavier(ladder, news.says or f"after it: {news.outcome or 'no proof'}", yard)
    return next_rung(ladder.model_copy(update={"proven": ladder.approval, "tried": rung.plan}), yard)


def _back_in_service(ladder: Ladder, yard: Yard) -> Ladder:
    """What mended it is proved again later. Where nothing of ours did there is nothing to prove: a scheduler's word is no cure."""
    if ladder.proven:
        return watch(_returned(ladder), yard)
    return ended(_returned(ladder), "withdrawn", f"the fault was gone without a remedy of ours; {ladder.target} is back in service")


def _failed(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    if not news.ran:
        return ask_again(ladder, news.says, yard)
    if news.outcome in GOOD and present(ladder).part == "fix" and ladder.fault and ladder.fault.lasts == "read":
        return _done(ladder, news, yard)  # the host was read anew and is well: nothing heavier is done to it, whatever the command said
    why = news.says or "the command failed"
    if (
        present(ladder).remedy == "evict_pods"
    ):  # pods that may not be evicted may still end: the node stays ours, and the fix waits for that
        return next_rung(ladder, yard).model_copy(update={"says": why})
    return heavier(ladder, why, yard) if present(ladder).part == "fix" else ended(ladder, "ticket", why)


def _superseded(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    if news.replaced_by:
        return ladder.model_copy(update={"approval": news.replaced_by, "says": news.says})
    if news.outcome == "covered":
        return waiting(ladder, "node_back", yard, news.says)
    if news.outcome == "host_key":
        return ended(ladder, "ticket", news.says)
    if news.outcome == "fault_gone":
        return _needless(ladder, news, yard)
    return ask_again(ladder, news.says, yard)


def _expired(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    """A way back that nobody decided about calls nobody again: the node is held, and said to be, until somebody asks."""
    if present(ladder).part == "restore":
        return ended(ladder, "undecided", news.says or "nobody decided in time")
    return ask_again(ladder, news.says, yard)


def _denied(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    return ended(ladder, "denied", news.says or "an approver said no")


def _revoked(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    return ended(ladder, "stopped", news.says or "it was revoked")


def _unknown(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    says = news.says or "the host cannot say what happened"
    return ended(ladder, "unknown", f"{says}; {ladder.target} stays locked until somebody looked and says what happened")


def _idle(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    """The node is drained and without jobs: nothing needs to be cancelled any more."""
    return next_rung(ladder, yard) if present(ladder).remedy in EMPTIES else asking(ladder, yard)


def _busy(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    if present(ladder).remedy in EMPTIES:
        return asking(ladder, yard)
    says = f"{ladder.target} is still not drained and without jobs"
    return ladder.model_copy(update={"due": yard.now + yard.waits.idle, "says": says})


def _held(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    """Somebody else took the node out of service: it is not ours to return."""
    return next_rung(ladder.model_copy(update={"held_elsewhere": news.says}), yard) if present(ladder).remedy == "drain_node" else ladder


def _given_back(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    """Other hands put the node into service while its fix waits until it is drained and idle: nobody drains it again by themselves."""
    return ended(_returned(ladder), "withdrawn" if news.outcome == "gone" else "ticket", news.says)


def _unreachable(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    return waiting(ladder, "node_back", yard, news.says)


def _back(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    """The host answers again, or what covered this action has ended: it is proposed anew, unless it is needless by now."""
    if news.outcome in GOOD and present(ladder).part == "fix":
        return next_rung(ladder, yard)
    return anew(ladder, news.says, yard)


def _cannot(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    return heavier(ladder, news.says, yard) if present(ladder).part == "fix" else ended(ladder, "ticket", news.says)


def _over(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    """The job ended by itself while its cancelling was put up: that was all that was wanted of it."""
    return next_rung(ladder, yard) if present(ladder).remedy in EMPTIES else ladder


def _needless(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    """What was to be changed is gone by itself. A node that was drained for it is offered back."""
    back = next((n for n, rung in enumerate(ladder.rungs) if rung.part == "restore"), None)
    if ladder.drained and back is not None:
        return enter(ladder, back, yard).model_copy(update={"says": news.says})
    return ended(ladder, "withdrawn", news.says)


def _shows(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    """It was to go back into service, and the host shows the fault again."""
    return ended(ladder, "ticket", news.says) if present(ladder).part == "restore" else ladder


def _joined(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    """Somebody else put the same up for the same host: what becomes of that decides."""
    return waiting(ladder.model_copy(update={"approval": news.replaced_by}), "node_back", yard, news.says)


def _not_idle(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    """It was idle when we looked and is not when we ask: wait again, under the same attempt."""
    return ladder.model_copy(update={"waiting_for": "idle", "due": yard.now + yard.waits.idle, "approval": "", "says": news.says})


def _again(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    """Somebody pressed Ask again: RackMedic proposes the rung once more."""
    return asking(ladder.model_copy(update={"attempt": ladder.attempt + 1, "says": ""}), yard)


def _return(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    """Somebody asked for a held node: a fresh look showed its fault no more, and its way back is put up."""
    return returning(yard.incident, ladder)


def _in_service(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    """Somebody else returned the node. What we mended there is proved again all the same; a fix that goes on finds it out by its conditions."""
    if not ladder.open:
        says = "; ".join(filter(None, (ladder.says.removesuffix(stays(ladder)).rstrip("; "), news.says)))
        return _returned(ladder).model_copy(update={"says": says})
    if not on_the_way_back(ladder):
        return ladder
    if ladder.proven:
        return watch(_returned(ladder), yard).model_copy(update={"says": news.says})
    return ended(_returned(ladder), "withdrawn", news.says)


def _unasked(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    return ladder.model_copy(update={"unasked": ladder.unasked or news.seen or yard.now})


def _asked(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    return ladder.model_copy(update={"unasked": None})


OF_HOLDS: Mapping[str, Move] = {IN_SERVICE: _in_service, UNASKED: _unasked, ASKED: _asked}
"""What a look at the scheduler found of a node that is held, however its fix stands."""


def _cured(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    over = ended(ladder, "cured", "proved again, the fault did not come back")
    return over.model_copy(update={"due": yard.now + yard.waits.quiet})


def _recurred(ladder: Ladder, news: News, yard: Yard) -> Ladder:
    return ended(ladder, "recurred", f"the fault came back: {news.says}" if news.says else "the fault came back")


def _from_next_plan(ladder: Ladder, ladders: Sequence[Ladder], yard: Yard) -> Ladder | None:
    """After a relapse a ladder of its own, for the node is in service again."""
    host = yard.inventory.hosts.get(ladder.target)
    return build_ladder(ladder.label, host, ladder.devices, yard, ladders, plan=ladder.tried + 1) if host else None


class LadderMove(NamedTuple):
    """What an event does to a ladder. `waiting`: only to one that waits for this; of any other it changes nothing."""

    move: Move
    waiting: WaitingFor | None = None


# fmt: off
MOVES: Mapping[str, LadderMove] = {
    # what became of the present rung's action
    "done":        LadderMove(_done),
    "failed":      LadderMove(_failed),
    "unknown":     LadderMove(_unknown),
    "denied":      LadderMove(_denied),
    "expired":     LadderMove(_expired),
    "superseded":  LadderMove(_superseded),
    "revoked":     LadderMove(_revoked),
    # what a look at the host or its scheduler found
    "idle":        LadderMove(_idle,      "idle"),
    "busy":        LadderMove(_busy,      "idle"),
    "not_idle":    LadderMove(_not_idle),
    "given_back":  LadderMove(_given_back, "idle"),
    "held":        LadderMove(_held),
    "unreachable": LadderMove(_unreachable),
    "back":        LadderMove(_back,      "node_back"),
    "cannot":      LadderMove(_cannot),
    "over":        LadderMove(_over),
    "needless":    LadderMove(_needless),
    "shows":       LadderMove(_shows,     "approval"),
    "joined":      LadderMove(_joined,    "approval"),
    # what the second proof found
    "cured":       LadderMove(_cured,     "proof"),
    "recurred":    LadderMove(_recurred,  "proof"),
    # what a person pressed
    "again":       LadderMove(_again),
    "return":      LadderMove(_return),
}
# fmt: on
