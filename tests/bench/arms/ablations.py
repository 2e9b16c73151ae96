"""Ablations: the product with one part left out, on the same cases.

Parts are left out through the inputs (knowledge, ticket, fleet, model), so no product code knows of it. Two of AidAI's
ablations have no row: without the taxonomy only the model remains, which is B4; and the rules are B8 itself.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from kb.taxonomy.taxonomy import Clue, Leaf, Taxonomy
from tests.bench.arms.arm import Answer, Knowledge, Stage
from tests.bench.arms.left_out import OneAtATime
from tests.bench.arms.rule_arms import Product
from tools.fleet.fleet import Fleet

MUTE = "Something is wrong with our training job."

Change = Callable[[Stage], Stage]


@dataclass(frozen=True, slots=True)
class Ablation:
    """One part left out. `knows` changes the knowledge, `stage` the other inputs; `declines` are model questions."""

    says: str
    knows: Callable[[Knowledge], Knowledge] | None = None
    stage: Change | None = None
    fleet: type[Fleet] = Fleet
    declines: tuple[str, ...] = ()


class Ablated:
    def __init__(self, row: Ablation, *, model: bool = False) -> None:
        self._row, self._product = row, Product(model=model, declines=row.declines, fleet=row.fleet)
        self._known: dict[int, tuple[Knowledge, Knowledge]] = {}

    async def solve(self, stage: Stage) -> Answer:
        given = self._row.stage(stage) if self._row.stage else stage
        return await self._product.solve(replace(given, knowledge=self._knowing(given.knowledge)))

    def _knowing(self, known: Knowledge) -> Knowledge:
        """Return the changed knowledge, built once per knowledge because taxonomies keep indexes."""
        if self._row.knows is None:
            return known
        if id(known) not in self._known:
            self._known[id(known)] = known, self._row.knows(known)
        return self._known[id(known)][1]


def no_history(known: Knowledge) -> Knowledge:
    return replace(known, past=())


def no_exclusive(known: Knowledge) -> Knowledge:
    return replace(known, checks={name: check for name, check in known.checks.items() if not check.exclusive})


def no_suppression(known: Knowledge) -> Knowledge:
    return _leaves(known, lambda leaf: replace(leaf, suppresses=()))


def no_peers(known: Knowledge) -> Knowledge:
    """Remove clues that compare with the majority of machines."""
    return _clues(known, lambda clue: "majority" not in clue.expression.mentions)


def no_contrary(known: Knowledge) -> Knowledge:
    """Remove clues against a cause."""
    return _clues(known, lambda clue: clue.weight > 0)


def no_profiles(known: Knowledge) -> Knowledge:
    """Remove the machine profiles."""
    return replace(known, skus={})


def blind_to(*names: str) -> Callable[[Knowledge], Knowledge]:
    return lambda known: replace(known, checks={name: check for name, check in known.checks.items() if name not in names})


def _leaves(known: Knowledge, change: Callable[[Leaf], Leaf]) -> Knowledge:
    leaves = {label: change(leaf) for label, leaf in known.taxonomy.leaves.items()}
    return replace(known, taxonomy=Taxonomy(leaves, known.taxonomy.branches))


def _clues(known: Knowledge, keep: Callable[[Clue], bool]) -> Knowledge:
    return _leaves(known, lambda leaf: replace(leaf, evidence=tuple(clue for clue in leaf.evidence if keep(clue))))


def mute(stage: Stage) -> Stage:
    """Replace the ticket by one that names nothing."""
    return replace(stage, text=MUTE)


def no_job_log(stage: Stage) -> Stage:
    """Remove attached logs."""
    return replace(stage, attachments=())


# fmt: off
ABLATIONS: Mapping[str, Ablation] = {
    # without a model
    "B8-history":     Ablation("without similar past incidents", no_history),
    "B8-ticket":      Ablation("without the ticket's words", stage=mute),
    "B8-exclusive":   Ablation("without checks that take a machine for themselves", no_exclusive),
    "B8-suppression": Ablation("without setting consequences aside", no_suppression),
    "B8-peers":       Ablation("without comparing machines with each other", no_peers),
    "B8-contrary":    Ablation("without evidence against a cause", no_contrary),
    "B8-profiles":    Ablation("without knowing what a machine should look like", no_profiles),
    "B8-kernel":      Ablation("without kernel logs", blind_to("dmesg")),
    "B8-joblog":      Ablation("without job logs", blind_to("joblog"), stage=no_job_log),
    "B8-parallel":    Ablation("without looking at many things at once", fleet=OneAtATime),
    # with one
    "B9-history":     Ablation("without similar past incidents", no_history),
    "B9-report":      Ablation("without the model's reading of the ticket", declines=("report",)),
    "B9-findings":    Ablation("without the model's reading of what was found", declines=("findings",)),
    "B9-critique":    Ablation("without the model's attack on causes", declines=("critique",)),
    "B9-parallel":    Ablation("without looking at many things at once", fleet=OneAtATime),
}
# fmt: on
