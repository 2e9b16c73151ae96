"""A guide in the nodes of a turn: what `plan` looks at first, and what `conclude` tells of it and puts up for decision."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graph.engine.assess import Assessment
from graph.engine.schedule import first_wave
from graph.incident.answers.kinds import answering
from graph.incident.case import Case, Turn, lens_of
from graph.incident.concluded import Concluded
from graph.incident.fixes import is_look, yard_of
from graph.incident.guiding.ground import FactGround
from graph.incident.guiding.running import GuideRunning, begun, running_in, wished_guide
from graph.incident.lifecycle import becomes, of_fixes
from graph.ladders.exclusive_checks import MOST_HOSTS, wished_look
from graph.ladders.preview import planned_actions
from graph.ladders.steps import steps_of
from graph.ports import Ports
from graph.report import GuideRun, GuideStepRow
from graph.state import Ladder
from kb.guides.guide import Guide, fitting
from kb.guides.walk import StepStanding, walk
from tools.inventory.ranges import expand

LONGEST = 140


@dataclass(frozen=True, slots=True)
class GuidedLooks:
    """The turn as it goes on, and the next wave."""

    turn: Turn
    asks: Sequence[tuple[str, str]]


def unknown_guide(case: Case, ports: Ports) -> str:
    """The name by which the item calls a guide that there is not; empty where it does not."""
    name = wished_guide(case)
    return name if name and name not in ports.guides else ""


def no_such_guide(case: Case, ports: Ports) -> Concluded:
    """Which there are."""
    known = ", ".join(f"`run guide {name}`" for name in ports.guides) or "none is loaded"
    return Concluded(answering(case, f"I have no guide called {unknown_guide(case, ports)}. There are: {known}."))


def guided_looks(case: Case, now: Assessment | None, ports: Ports) -> GuidedLooks | None:
    """What a guide that somebody called looks at next; once it has nothing left to look at, everything else is looked at like in any other
    turn. None where no guide runs in this turn, or all of that is done."""
    guide = ports.guides.get(wished_guide(case))
    if guide is None or case.turn.cut or not case.turn.hosts:
        return None
    running = begun(case, guide, case.turn.hosts) if now is None else running_in(case)
    if running is None or running.rest:
        return None
    hosts = tuple(expand(running.hosts))
    stands = walk(guide, _ground(case, ports, running, planned=_planned(now, ports)))
    wave = [row.step for row in stands if row.mark == "next" and row.step.kind == "look" and not row.step.approve]
    looked = (*running.looked, *(step.id for step in wave))
    running = replace(running, looked=looked, rest=not wave)
    asks = [(host, check) for host in hosts for check in dict.fromkeys(check for step in wave for check in step.look)]
    rest = first_wave(lens_of(ports, case.facts), hosts)
    return GuidedLooks(replace(case.turn, guide=running.write()), asks if wave else rest)


def _planned(now: Assessment | None, ports: Ports) -> frozenset[str]:
    """Remedies of what is proven by now."""
    labels = {row.label for row in now.root_causes()} if now else set()
    plans = [plan for label in labels for plan in ports.taxonomy.leaf(label).remedies]
    return frozenset(step.name for plan in plans for step in steps_of(plan))


def _ground(
    case: Case, ports: Ports, running: GuideRunning | None, ladders: Sequence[Ladder] = (), planned: frozenset[str] = frozenset()
) -> FactGround:
    hosts = tuple(expand(running.hosts)) if running else case.hosts
    return FactGround(case.facts, hosts, lens_of(ports, case.facts), ports.clock.now(), running, ladders, planned)


def with_guide(concluded: Concluded, case: Case, now: Assessment, ports: Ports) -> Concluded:
    """The conclusion with where the guide that runs stands; where none was called and nothing is proven, with the one that fits what was
    reported, held against what is known already. A run puts up what needs GPUs for itself, one card after the other."""
    calls = bool(wished_guide(case)) or is_look(case.item)
    running = running_in(case)
    if running and not calls and not (case.report and case.report.guide and case.report.guide.open):
        running = None  # it came to its end in an earlier turn, and was told there
    guide = ports.guides.get(running.id) if running else _fitting(concluded, case, ports)
    if guide is None:
        return concluded
    ladders = list(case.ladders if concluded.ladders is None else concluded.ladders)
    stands = walk(guide, _ground(case, ports, running, ladders))
    if running and calls and not case.turn.cut and (card := _card(stands, running, case, now, ports, ladders)):
        ladders = [*ladders, card]
        concluded = _put_up(concluded, ladders, case, ports)
        stands = walk(guide, _ground(case, ports, running, ladders))
    if running:
        began = {row.step.id: running.began.get(row.step.id, ports.clock.now()) for row in stands if row.mark == "waiting" and row.due}
        running = replace(running, began={**running.began, **began})
        concluded = replace(concluded, turn=replace(concluded.turn or case.turn, guide=running.write()))
    told = _told(guide, stands, called=running is not None)
    return replace(concluded, report=concluded.report.model_copy(update={"guide": told}))


def _fitting(concluded: Concluded, case: Case, ports: Ports) -> Guide | None:
    """Where a cause is proven the diagnosis is the answer; where looking ended early little of a guide could be told."""
    open_ = concluded.report.outcome == "abstained" and not (case.turn.cut or case.turn.narrow or case.turn.news)
    return fitting(ports.guides, case.brief.symptoms, case.brief.text) if open_ and case.hosts and case.facts else None


def _card(
    stands: Sequence[StepStanding], running: GuideRunning, case: Case, now: Assessment, ports: Ports, ladders: Sequence[Ladder]
) -> Ladder | None:
    """The next look that needs GPUs for itself; none while another one is up for decision."""
    if any(row.open and row.now and row.now.remedy == "run_check" for row in ladders):
        return None
    hosts = expand(running.hosts)[:MOST_HOSTS]
    ground = _ground(case, ports, running, ladders)
    for row in stands:
        if row.mark != "next" or not row.step.approve:
            continue
        check = now.lens.checks[next(name for name in row.step.look if not ground.answered(name))]
        return wished_look(check, hosts, now, yard_of(case, ports), ladders).model_copy(update={"asked_by": running.by})
    return None


def _put_up(concluded: Concluded, ladders: list[Ladder], case: Case, ports: Ports) -> Concluded:
    actions = tuple(planned_actions(ladders, yard_of(case, ports)))
    report = concluded.report.model_copy(update={"actions": actions})
    return replace(concluded, report=report, ladders=ladders, lifecycle=becomes(concluded.lifecycle or "open", of_fixes(ladders)))


def _told(guide: Guide, stands: Sequence[StepStanding], *, called: bool) -> GuideRun:
    rows = tuple(GuideStepRow(id=row.step.id, mark=row.mark, does=row.step.says[:LONGEST], says=row.says[:LONGEST]) for row in stands)
    due = min((row.due for row in stands if row.due and row.mark == "waiting"), default=None)
    return GuideRun(id=guide.id, title=guide.title, called=called, steps=rows, due=due if called else None)
