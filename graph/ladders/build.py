"""From a diagnosis to ladders: for each cause and host the ordered actions of its fix. Pure.

One ladder never changes more than one host. Ladders of one host share its drain: the first takes it out of service, and the node
returns only when all of them are through (`graph.ladders.moves`).
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from graph.ladders.steps import Ground, NoRung, Step, rungs_of, steps_of
from graph.ports import Waits
from graph.state import Hypothesis, Ladder, Rung
from kb.taxonomy.labels import Leaf, Taxonomy
from tools.fact import Fact
from tools.inventory.hosts import Host, Inventory
from tools.remedies import REMEDIES

MOST_LADDERS = 64
"""Fixes of one incident. They are put up for decision in waves (`bot.actions.waves`), so that many are not many at once."""
SCOPES = frozenset({"node", "gpu", "hca"})
"""Causes that a host itself can be mended of. What is wrong with a switch, a rack or a job is nobody's host's fault."""


@dataclass(frozen=True, slots=True)
class Yard:
    """What ladders are built from and moved with."""

    incident: str
    now: datetime
    inventory: Inventory
    taxonomy: Taxonomy
    facts: Sequence[Fact]
    job: str = ""
    stuck: bool = False
    """The job hangs, so that a drained node will not become idle by itself."""
    waits: Waits = field(default_factory=Waits)

    def of(self, host: str) -> list[Fact]:
        """What is known of a host now."""
        return [fact for fact in self.facts if fact.host == host and not fact.stale]


@dataclass(frozen=True, slots=True)
class Built:
    """Ladders, and sentences of what people must do."""

    ladders: tuple[Ladder, ...] = ()
    by_hand: tuple[str, ...] = ()


EMPTIES = frozenset({"cancel_job", "evict_pods"})
"""What makes a drained node idle that does not become so by itself. Once it is, nobody is asked for them."""
GONE = frozenset({"withdrawn", "cured", "recurred"})
"""Ends after which the same cause on the same host is a new fault."""


def ladders_for(
    causes: Iterable[Hypothesis],
    yard: Yard,
    known: Sequence[Ladder] = (),
    *,
    anew: bool = False,
    elsewhere: Collection[tuple[str, str]] = (),
) -> Built:
    """Ladders of these causes that are not among `known`, and what is left to people. `anew`: those that people had to end may begin again.
    `elsewhere`: (label, host) that another incident mends; without a host what it leaves to people."""
    blocking = [row for row in known if row.open or row.outcome == "unknown" or (row.outcome not in GONE and not anew)]
    built: list[Ladder] = []
    by_hand: list[str] = []
    for cause in causes:
        leaf = yard.taxonomy.leaves.get(cause.label)
        if leaf is None:
            continue
        hosts = [host for name in mended_on(cause, yard) if (host := yard.inventory.hosts.get(name))]
        for host in hosts:
            if (cause.label, host.name) in elsewhere or any((row.label, row.target) == (cause.label, host.name) for row in blocking):
                continue
            ladder, words = _ladder(leaf, cause, host, yard, [*known, *built])
            by_hand += words
            built += [ladder] if ladder and len(built) + len(known) < MOST_LADDERS else []
        by_hand += _by_hand(leaf, cause) if not hosts and (cause.label, "") not in elsewhere else []
    return Built(tuple(built), tuple(dict.fromkeys(by_hand)))


def left_to_people(ladders: Iterable[Ladder], taxonomy: Taxonomy) -> tuple[str, ...]:
    """What people have to do for these fixes, at the plan each is at; nothing where the fault is gone."""
    said = [(row, _words_now(row)) for row in ladders if row.outcome not in GONE]
    return tuple(dict.fromkeys(f"{taxonomy.title(row.label)} on {row.target}: {words}." for row, words in said if words))


def _words_now(ladder: Ladder) -> str:
    plan = ladder.tried if ladder.now is None or ladder.now.part == "restore" else ladder.now.plan
    return ladder.words[plan] if 0 <= plan < len(ladder.words) else ""


def mended_on(cause: Hypothesis, yard: Yard) -> tuple[str, ...]:
    """The hosts on which a fix of this cause begins. A job has none of its own; where a command mends it, those that show what is to be mended."""
    leaf = yard.taxonomy.leaves.get(cause.label)
    if leaf is None or leaf.scope in SCOPES:
        return cause.hosts
    if leaf.scope != "job" or not leaf.remedies:
        return ()
    first = steps_of(leaf.remedies[0])[0]
    if first.kind != "remedy":
        return ()
    hosts = (yard.inventory.hosts.get(name) for name in sorted({fact.host for fact in yard.facts}))
    return tuple(host.name for host in hosts if host and _can(first, Ground(host, yard.inventory.hosts, yard.of(host.name), cause)))


def _can(step: Step, ground: Ground) -> bool:
    try:
        return bool(rungs_of(step, ground, 0))
    except NoRung:
        return False


def _by_hand(leaf: Leaf, cause: Hypothesis) -> list[str]:
    """What is to be done where no host is to be changed."""
    if leaf.scope in SCOPES and cause.hosts:
        return []
    said = [step.words for step in steps_of(leaf.remedies[0]) if step.words] if leaf.remedies else []
    return [f"{leaf.title}: {', then '.join(said)}."] if said else []


def build_ladder(label: str, host: Host, devices: tuple[str, ...], yard: Yard, known: Sequence[Ladder], *, plan: int = 0) -> Ladder | None:
    """A fresh ladder from the leaf's plan number `plan` on, after an earlier one did not hold; None where no rung is left."""
    leaf = yard.taxonomy.leaves.get(label)
    if leaf is None or plan >= len(leaf.remedies):
        return None
    cause = Hypothesis(label=label, hosts=(host.name,), devices=devices)
    return _ladder(leaf, cause, host, yard, known, first=plan)[0]


def _ladder(
    leaf: Leaf, cause: Hypothesis, host: Host, yard: Yard, known: Sequence[Ladder], first: int = 0
) -> tuple[Ladder | None, list[str]]:
    ground = Ground(host, yard.inventory.hosts, yard.of(host.name), cause, yard.job)
    shared = any(row.open and row.target == host.name and any(rung.remedy == "drain_node" for rung in row.rungs) for row in known)
    rungs, words, missing = _plans(leaf, ground, first, shared=shared)
    sentences = dict.fromkeys([*missing, *filter(None, words[first : first + 1])])
    said = [f"{leaf.title} on {host.name}: {sentence}." for sentence in sentences]
    if not rungs:
        return None, said
    rungs = _with_emptying(rungs, ground, yard)
    drains = any(rung.remedy == "drain_node" for rung in rungs)
    rungs += [way_back(host.name)] if drains and any(rung.part == "fix" for rung in rungs) else []
    devices = tuple(name for name in cause.devices if name.partition("/")[0] == host.name)
    count = sum((row.label, row.target) == (leaf.label, host.name) for row in known)
    name = hashlib.sha256(f"{yard.incident} {leaf.label} {host.name} {count}".encode()).hexdigest()[:8]
    ladder = Ladder(id=name, label=leaf.label, target=host.name, devices=devices, rungs=tuple(rungs), words=tuple(words))
    return enter(ladder, 0, yard), said


def _plans(leaf: Leaf, ground: Ground, first: int, *, shared: bool) -> tuple[list[Rung], list[str], list[str]]:
    """Of the leaf's plans from `first` on: all rungs, for each plan the words left to people, and what could not be offered."""
    rungs: list[Rung] = []
    words: list[str] = [""] * first
    missing: list[str] = []
    for number, plan in enumerate(leaf.remedies[first:], first):
        own, left, lost = _plan(steps_of(plan), ground, number, drained=shared or any(r.remedy == "drain_node" for r in rungs))
        rungs += own
        words.append(left)
        missing += lost
        if not own and not rungs:
            break  # people come first here: nothing is done to the host before they did
    return rungs, words, missing


def _plan(steps: Sequence[Step], ground: Ground, number: int, *, drained: bool) -> tuple[list[Rung], str, list[str]]:
    """Rungs up to the first step that people must do, what is left to them, and what could not be offered."""
    rungs: list[Rung] = []
    missing: list[str] = []
    for at, step in enumerate(steps):
        if step.kind == "people":
            return rungs, ", then ".join(filter(None, (later.words for later in steps[at:]))), missing
        if step.name == "drain_node" and drained:
            continue
        try:
            rungs += rungs_of(step, ground, number)
        except NoRung as why:
            missing.append(str(why))
            if step.name != "drain_node":
                return rungs, str(why), missing
    return rungs, "", missing


def _with_emptying(rungs: list[Rung], ground: Ground, yard: Yard) -> list[Rung]:
    """What empties the drained node comes behind the drain: where a stuck job would keep it busy for ever, and where pods never end."""
    at = next((n for n, rung in enumerate(rungs) if rung.remedy == "drain_node"), None)
    waits = any("drained" in REMEDIES[rung.remedy].needs for rung in rungs)
    pods = ground.host.scheduler == "kubernetes"
    if at is None or not waits or not (pods or yard.stuck):
        return rungs
    try:
        empties = rungs_of(Step("evict_pods" if pods else "cancel_job"), ground, rungs[at].plan)
    except NoRung:
        return rungs
    return [*rungs[: at + 1], *empties, *rungs[at + 1 :]]


def way_back(host: str) -> Rung:
    """The rung that returns a drained node to service."""
    return Rung(remedy="resume_node", args={"node": host}, plan=-1, part="restore")


def approval_of(incident: str, ladder: Ladder) -> str:
    """The approval id of the present rung and attempt: the same whoever works it out, so that nothing is proposed twice."""
    text = f"{incident} {ladder.id} {ladder.rung} {ladder.attempt}"
    return f"apr-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def enter(ladder: Ladder, at: int, yard: Yard) -> Ladder:
    """The ladder on rung `at`: it waits for a decision, or first for the node to become idle."""
    rung, waits = ladder.rungs[at], yard.waits
    ladder = ladder.model_copy(update={"rung": at, "attempt": 1, "outcome": "", "approval": "", "says": ""})
    if rung.part == "restore":
        return ladder.model_copy(update={"waiting_for": "none", "due": None})
    if waits_idle(rung, yard.inventory.hosts.get(ladder.target)):
        patience = waits.busy if rung.remedy in EMPTIES else waits.idle
        return ladder.model_copy(update={"waiting_for": "idle", "due": yard.now + patience})
    return asking(ladder, yard)


def asking(ladder: Ladder, yard: Yard) -> Ladder:
    """The present rung put up for decision."""
    return ladder.model_copy(update={"waiting_for": "approval", "due": None, "approval": approval_of(yard.incident, ladder)})


def waits_idle(rung: Rung, host: Host | None) -> bool:
    """Whether the node must be drained and without jobs first; only a scheduler can tell."""
    return bool(host and host.controller) and (rung.remedy in EMPTIES or "drained" in REMEDIES[rung.remedy].needs)
