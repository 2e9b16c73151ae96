"""What would be put up for decision, as rows for reports and `--json`: built as the real actions are, with what is known without asking a host. Pure."""

from collections.abc import Iterable

from graph.ladders.build import Yard, approval_of
from graph.ladders.fault import guard_of
from graph.report import PlannedAction
from graph.state import Ladder
from tools.acting.build import ActionWanted, HostSeen, build, build_check, catalogue_hash, via_of
from tools.action import Action
from tools.inventory.hosts import Host
from tools.remedies import REMEDIES
from tools.remedies.row import BadArgument


def planned_actions(ladders: Iterable[Ladder], yard: Yard) -> list[PlannedAction]:
    """The rungs of every open ladder's present plan, from the present rung on. The way back into service is not part of a fix."""
    return [row for ladder in ladders if ladder.open for row in _of_ladder(ladder, yard)]


def _of_ladder(ladder: Ladder, yard: Yard) -> list[PlannedAction]:
    present = ladder.now
    if present is None or present.part == "restore" or ladder.waiting_for == "proof":
        return []
    ahead = [n for n, rung in enumerate(ladder.rungs) if n >= ladder.rung and rung.part != "restore" and rung.plan == present.plan]
    rows = [(n, planned(ladder.model_copy(update={"rung": n}), yard)) for n in sorted({ladder.rung, *ahead})]
    return [_row(ladder, n, action) for n, action in rows if action is not None]


def planned(ladder: Ladder, yard: Yard) -> Action | None:
    """The action of the present rung; None where it cannot be built. The boot id is the one last seen."""
    rung, target = ladder.now, yard.inventory.hosts.get(ladder.target)
    if rung is None:
        return None
    wanted = ActionWanted(rung.remedy, rung.args, yard.incident, ladder.label, rung.devices, fault=guard_of(ladder))
    if rung.remedy == "run_check":
        return build_check(wanted, ladder.target.split(","), policy="", catalogue=catalogue_hash())
    if target is None:
        return None
    try:
        via = via_of(REMEDIES[rung.remedy], target, yard.inventory.hosts)
        return build(
            wanted, target, via, _seen(via, yard), policy="", catalogue=catalogue_hash(), approval=approval_of(yard.incident, ladder)
        )
    except BadArgument:
        return None


def _seen(via: Host, yard: Yard) -> HostSeen:
    boots = [str(fact.value) for fact in yard.of(via.name) if fact.key == "host.boot_id" and fact.value]
    return HostSeen(boots[-1] if boots else "")


def _row(ladder: Ladder, rung: int, action: Action) -> PlannedAction:
    return PlannedAction(
        label=ladder.label,
        rung=rung,
        remedy=action.remedy,
        target=action.target,
        via=action.via,
        args=dict(action.args),
        argv=action.argv,
        command=action.command,
        risk=action.risk,
        digest=action.digest,
    )
