"""What we hold: nodes that we drained and that are not back, each with who approved that, since when, what for, and where it stands; and
whether the way back may be asked for. Pure.

After a remedy that failed, made it worse or was not proved there is no way back by us, only the reason.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from graph.ladders.build import approval_of, way_back
from graph.ladders.ends import HELD, does, stays
from graph.report import HeldNode
from graph.state import Ladder
from kb.taxonomy.labels import Taxonomy


@dataclass(frozen=True, slots=True)
class Held:
    """One node. `by` is a name, empty where nobody noted it; `why` says where its fix stands."""

    ladder: str
    host: str
    label: str
    by: str
    since: datetime | None
    why: str
    no_return: str = ""
    """Why its return cannot be asked for; empty where it can, and a fresh look decides."""
    unasked: datetime | None = None
    """Since when the scheduler could not be asked whether it is so still."""

    def in_words(self, title: str = "") -> str:
        """One line for people; `title` is what its label is called."""
        return f"{self.host}: {self.said(title)}"

    def said(self, title: str = "") -> str:
        """The same without the host's name."""
        since = f" since {self.since:%Y-%m-%d %H:%M} UTC" if self.since else ""
        approved = f", approved by {self.by}" if self.by else ""
        cause = f", for {title}" if title else ""
        doubt = f"; could not look since {self.unasked:%Y-%m-%d %H:%M} UTC whether it still is" if self.unasked else ""
        return f"drained by RackMedic{since}{approved}{cause}; {self.why}{doubt}"


def held(ladders: Sequence[Ladder]) -> list[Held]:
    """Every node that an incident's fixes hold."""
    return [
        Held(row.id, row.target, row.label, row.drained_by, row.drained_at, _stands(row), no_return(row, ladders), row.unasked)
        for row in ladders
        if row.drained
    ]


def held_by(ladders: Sequence[Ladder], taxonomy: Taxonomy) -> list[str]:
    """The same as lines, and below them what is locked: all that people who take over find held."""
    said = [row.in_words(taxonomy.title(row.label)) for row in held(ladders)]
    said += [f"{row.target} is locked: {row.approval} ended in doubt" for row in ladders if row.outcome == "unknown"]
    return list(dict.fromkeys(said))


def _stands(ladder: Ladder) -> str:
    if ladder.open:
        return "; ".join(filter(None, (ladder.says, f"next: {does(ladder)}")))
    return ladder.says.removesuffix(stays(ladder)).rstrip("; ") or ladder.outcome


def may_come_back(ladders: Sequence[Ladder]) -> tuple[HeldNode, ...]:
    """Held nodes whose return may be asked for; whether it is proposed, a fresh look decides."""
    return tuple(HeldNode(ladder=row.ladder, host=row.host) for row in held(ladders) if not row.no_return)


def no_return(ladder: Ladder, ladders: Sequence[Ladder]) -> str:
    """Why nobody may ask for the way back of a held node; empty where it may be asked for. `ladders` are all of the incident."""
    if not ladder.drained:
        return f"{ladder.target} is not held any more"
    if ladder.open:
        return f"the fix goes on by itself: {does(ladder)}" if not on_the_way_back(ladder) else "its return is under way in the thread"
    return next(filter(None, (_unmended(row) for row in (ladder, *beside(ladder, ladders)))), "")


def beside(ladder: Ladder, ladders: Sequence[Ladder]) -> list[Ladder]:
    """What else was to be mended on its host, and is not known to be."""
    others = [row for row in ladders if row.target == ladder.target and row.id != ladder.id]
    return [row for row in others if ((row.open and row.waiting_for != "proof") or row.outcome in HELD) and not _looks(row)]


def returns(ladder: Ladder) -> bool:
    """Whether its fix, as far as the present plan goes, ends with the way back: only of a node that it drains, or has drained."""
    plan = ladder.tried if ladder.now is None or ladder.now.part == "restore" else ladder.now.plan
    drains = any(row.remedy == "drain_node" and row.plan == plan for row in ladder.rungs)
    return any(row.part == "restore" for row in ladder.rungs) and (ladder.drained or (drains and not ladder.held_elsewhere))


def on_the_way_back(ladder: Ladder) -> bool:
    """Whether the node is being returned: by a closed incident too."""
    return ladder.open and ladder.now is not None and ladder.now.part == "restore"


def returning(incident: str, ladder: Ladder) -> Ladder:
    """The ladder with the way back put up for decision once more, also where its plan had none."""
    back = next((n for n, row in enumerate(ladder.rungs) if row.part == "restore"), len(ladder.rungs))
    rungs = ladder.rungs if back < len(ladder.rungs) else (*ladder.rungs, way_back(ladder.target))
    attempt = ladder.attempt + 1 if ladder.rung == back else 1
    update = {"rungs": rungs, "rung": back, "attempt": attempt, "outcome": "", "waiting_for": "approval", "due": None, "says": ""}
    asked = ladder.model_copy(update=update)
    return asked.model_copy(update={"approval": approval_of(incident, asked)})


def _unmended(ladder: Ladder) -> str:
    """What keeps a node out of service whatever it shows."""
    if ladder.open:
        return f"another fix on {ladder.target} goes on: {does(ladder)}"
    if ladder.outcome == "unknown":
        return ladder.says
    if _treated_in_vain(ladder):
        return f"a remedy was run and is not proved to have helped ({_stands(ladder)}); whoever mends {ladder.target} returns it"
    if ladder.fault is None and ladder.since is None:
        return "what was wrong is not noted, so I cannot look whether it is gone"
    return ""


def _treated_in_vain(ladder: Ladder) -> bool:
    """Whether a remedy that changes the host was claimed, and the last one's proof did not pass."""
    rung = ladder.now
    if ladder.since is None or rung is None or rung.part == "restore":
        return False
    later = any(row.part == "fix" and row.plan == rung.plan for row in ladder.rungs[ladder.rung + 1 :])
    return later or not ladder.proven or ladder.proven != ladder.approval


def _looks(ladder: Ladder) -> bool:
    return any(rung.remedy == "run_check" for rung in ladder.rungs)


def holds(ladders: Sequence[Ladder]) -> bool:
    """Whether any node is held: such an incident is never forgotten, closed or not."""
    return any(row.drained for row in ladders)
