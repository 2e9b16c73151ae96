"""What comes next on a ladder: the rest of a plan, something heavier, the way back, the watch, the same again, or people. Pure."""

from collections.abc import Callable

from graph.ladders.build import EMPTIES, Yard, asking, enter, waits_idle
from graph.ladders.ends import ended
from graph.state import Ladder, Rung, WaitingFor
from tools.remedies import REMEDIES


def present(ladder: Ladder) -> Rung:
    """The rung it stands on."""
    rung = ladder.now
    assert rung is not None  # `moved` lets no other ladder in
    return rung


def next_rung(ladder: Ladder, yard: Yard) -> Ladder:
    """The rung after a complete one: the rest of its plan, then the way back into service, then the watch."""
    rung = present(ladder)
    follow = _first(ladder, lambda n, row: n > ladder.rung and row.plan == rung.plan and row.part != "restore")
    if follow is not None:
        return enter(ladder, follow, yard)
    if rung.part == "prepare":
        return heavier(ladder, "", yard)
    back = _first(ladder, lambda n, row: row.part == "restore")
    return enter(ladder, back, yard) if back is not None and ladder.drained else watch(ladder, yard)


def watch(ladder: Ladder, yard: Yard) -> Ladder:
    """It passes now; it is proved again later."""
    watched = {"waiting_for": "proof", "due": yard.now + yard.waits.reproof, "approval": ladder.proven or ladder.approval, "says": ""}
    return ladder.model_copy(update=watched)


def heavier(ladder: Ladder, why: str, yard: Yard) -> Ladder:
    """The next plan of the taxonomy; where it names none, the catalogue's heavier remedy; else people."""
    rung = present(ladder)
    left = _words(ladder, rung.plan)
    later = _first(ladder, lambda n, row: n > ladder.rung and row.plan > rung.plan and row.part != "restore")
    if left and rung.part == "prepare":
        return to_people(ladder, why, left)
    if later is not None and not _people_between(ladder, rung.plan, ladder.rungs[later].plan):
        return enter(ladder, later, yard).model_copy(update={"says": why})
    if len(ladder.words) <= rung.plan + 1 and (more := _by_catalogue(ladder, rung)):
        return enter(ladder.model_copy(update={"rungs": _with(ladder.rungs, more, ladder.rung)}), ladder.rung + 1, yard).model_copy(
            update={"says": why}
        )
    return to_people(ladder, why, left or ", or ".join(filter(None, ladder.words[rung.plan + 1 :])))


def _people_between(ladder: Ladder, plan: int, later: int) -> bool:
    """Whether a plan between the two is people's work alone."""
    return any(_words(ladder, number) and not any(row.plan == number for row in ladder.rungs) for number in range(plan + 1, later))


def _by_catalogue(ladder: Ladder, rung: Rung) -> Rung | None:
    """The remedy's own heavier one, unless it was tried or needs values of its own."""
    row = REMEDIES[rung.remedy]
    heavier = row.heavier
    if heavier == row.id:
        args = {**rung.args, **row.harder}
        return None if args == rung.args else rung.model_copy(update={"args": args, "plan": rung.plan + 1})
    if not heavier or REMEDIES[heavier].args or any(row.remedy == heavier for row in ladder.rungs):
        return None
    return Rung(remedy=heavier, plan=rung.plan + 1)


def _with(rungs: tuple[Rung, ...], more: Rung, behind: int) -> tuple[Rung, ...]:
    return (*rungs[: behind + 1], more, *rungs[behind + 1 :])


def to_people(ladder: Ladder, why: str, words: str) -> Ladder:
    return ended(ladder, "ticket", "; ".join(filter(None, (why, f"next: {words}" if words else "no remedy is left"))))


def ask_again(ladder: Ladder, why: str, yard: Yard) -> Ladder:
    """The same rung as a new action with a new mention, so many times."""
    if ladder.attempt >= yard.waits.asks:
        return ended(ladder, "undecided", f"asked {ladder.attempt} times; last: {why or 'nobody decided'}")
    return anew(ladder, why, yard)


def anew(ladder: Ladder, why: str, yard: Yard) -> Ladder:
    """Where only an idle node will do, it is looked at again first."""
    rung = present(ladder)
    row = ladder.model_copy(update={"attempt": ladder.attempt + 1, "says": why})
    if waits_idle(rung, yard.inventory.hosts.get(ladder.target)) and rung.remedy not in EMPTIES:
        return row.model_copy(update={"waiting_for": "idle", "due": yard.now + yard.waits.idle, "approval": ""})
    return asking(row, yard)


def waiting(ladder: Ladder, reason: WaitingFor, yard: Yard, says: str) -> Ladder:
    return ladder.model_copy(update={"waiting_for": reason, "due": yard.now + yard.waits.back, "says": says})


def _first(ladder: Ladder, fits: Callable[[int, Rung], bool]) -> int | None:
    return next((n for n, row in enumerate(ladder.rungs) if fits(n, row)), None)


def _words(ladder: Ladder, plan: int) -> str:
    return ladder.words[plan] if 0 <= plan < len(ladder.words) else ""
