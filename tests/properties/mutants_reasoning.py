"""Faults seeded one at a time into the nodes of a turn, after the kinds of MAS-FIRE: none may end in a claim that is not true. docs/reasoning.md shows them."""

from dataclasses import dataclass
from typing import Literal

from tests.properties.second_world import Edit, second_world

TELLING = "tests.properties.reasoning_stories"
FaultKind = Literal[
    "unknown label",
    "flipped verdict",
    "swapped result",
    "lost message",
    "repeated message",
    "stale state",
    "model oversteps",
    "wrong target",
]


@dataclass(frozen=True)
class ReasoningMutant:
    """One fault, of which kind, the story that meets it, its edits, and how it ends: by which contract, or in an abstention."""

    name: str
    kind: FaultKind
    story: str
    ends: str
    edits: tuple[Edit, ...]

    def row(self) -> str:
        """As a line of the table."""
        return f"| {self.kind} | {self.name} | {self.ends} |"


BOTH, HIDDEN, MODEL, BLIND, MENDED = (
    "two faults on two hosts",
    "the looks that would tell are refused",
    "a model reads and judges",
    "a model reads where nothing can be seen",
    "mended before the next look",
)
CONCLUDE, EXECUTE, PLAN, REFLECT, CASE = (f"graph.incident.{name}" for name in ("conclude", "execute", "plan", "reflect", "case"))
ROOTS = "        root_causes=roots,\n"
ABSTAINS = "an abstention"

REASONING_MUTANTS: tuple[ReasoningMutant, ...] = (
    ReasoningMutant(
        "the report names a cause that nobody knows",
        "unknown label",
        BOTH,
        "known_labels",
        ((CONCLUDE, ROOTS, '        root_causes=tuple(row.model_copy(update={"label": "GPU.BUS.Invented"}) for row in roots),\n'),),
    ),
    ReasoningMutant(
        "similar incidents bring a cause that nobody knows",
        "unknown label",
        HIDDEN,
        "moves_are_bounded",
        (
            (
                PLAN,
                "past=tuple(label for label, _ in known), priors=priors)",
                'past=("GPU.BUS.Invented",), priors={"GPU.BUS.Invented": 1.5})',
            ),
        ),
    ),
    ReasoningMutant(
        "what is ruled out is reported as found",
        "flipped verdict",
        BOTH,
        "confirmed_is_verified",
        (
            (
                CONCLUDE,
                ROOTS,
                '        root_causes=tuple(now.hypothesis("GPU.THERMAL.Hot").model_copy(update={"verdict": "confirmed"}) for _ in "1"),\n',
            ),
        ),
    ),
    ReasoningMutant(
        "what is found is reported as ruled out",
        "flipped verdict",
        BOTH,
        "confirmed_is_reported",
        (
            (CONCLUDE, ROOTS, "        root_causes=(),\n"),
            (
                CONCLUDE,
                "            for row in now.ruled_out()\n",
                '            for row in [one.model_copy(update={"verdict": "rejected"}) for one in roots]\n',
            ),
        ),
    ),
    ReasoningMutant(
        "a cause that was found is not reported",
        "lost message",
        BOTH,
        "confirmed_is_reported",
        ((CONCLUDE, ROOTS, "        root_causes=roots[:1],\n"),),
    ),
    ReasoningMutant(
        "no fault is said whatever was found",
        "flipped verdict",
        BOTH,
        "confirmed_is_reported",
        (
            (CONCLUDE, ROOTS, "        root_causes=(),\n"),
            (CONCLUDE, '    return "abstained" if case.turn.cut and now.finding != "diagnosed" else now.finding', '    return "no_fault"'),
        ),
    ),
    ReasoningMutant(
        "two hosts' answers change places",
        "swapped result",
        BOTH,
        "answer_is_its_hosts",
        (
            (
                EXECUTE,
                "    return [*wave.facts, *silent]\n",
                '    other = {"n2": "n3", "n3": "n2"}\n    return [replace(row, host=other.get(row.host, row.host)) for row in (*wave.facts, *silent)]\n',
            ),
        ),
    ),
    ReasoningMutant(
        "an answer comes under a host that never gave it",
        "swapped result",
        BOTH,
        "nothing_is_lost",
        (
            (
                EXECUTE,
                "    return [*wave.facts, *silent]\n",
                '    return [*(replace(row, host="n1") if row.host == "n2" else row for row in wave.facts), *silent]\n',
            ),
        ),
    ),
    ReasoningMutant(
        "the answers of one check are lost on the way",
        "lost message",
        BOTH,
        "nothing_is_lost",
        ((EXECUTE, "    return [*wave.facts, *silent]\n", '    return [row for row in (*wave.facts, *silent) if row.check != "mem"]\n'),),
    ),
    ReasoningMutant(
        "a host's answers never come",
        "lost message",
        HIDDEN,
        "nothing_is_lost",
        ((EXECUTE, "    return [*wave.facts, *silent]\n", '    return [row for row in (*wave.facts, *silent) if row.host != "n2"]\n'),),
    ),
    ReasoningMutant(
        "every answer comes twice",
        "repeated message",
        BOTH,
        "nothing: it says the truth",
        ((EXECUTE, "    return [*wave.facts, *silent]\n", "    return [*wave.facts, *wave.facts, *silent]\n"),),
    ),
    ReasoningMutant(
        "facts are weighed that were read before they were mended",
        "stale state",
        MENDED,
        "confirmed_is_verified",
        (
            (
                CASE,
                '    return cast("Assessment", ports.recent[name])\n',
                '    return _EVER.setdefault(turn.hosts, cast("Assessment", ports.recent[name]))\n',
            ),
            (CASE, "MOST_RECENT = 6\n", "MOST_RECENT = 6\n_EVER: dict[str, Any] = {}\n"),
        ),
    ),
    ReasoningMutant(
        "what is new does not replace what is old",
        "stale state",
        MENDED,
        "answer_is_its_hosts",
        (
            (
                CASE,
                "    return [fact for fact in old if (fact.host, fact.check) not in fresh] + added\n",
                "    return [*old, *(row for row in added if not old)]\n",
            ),
        ),
    ),
    ReasoningMutant(
        "a reading moves a belief as far as it likes",
        "model oversteps",
        BLIND,
        "moves_are_bounded",
        (("graph.engine.prior", "{label: MODEL_SWAY * max(0.0, min(1.0, p))", "{label: 9 * max(0.0, min(1.0, p))"),),
    ),
    ReasoningMutant(
        "a belief is moved by nobody",
        "model oversteps",
        HIDDEN,
        "moves_are_bounded",
        (
            (
                PLAN,
                "    priors = _trimmed(together(*parts.values()))\n",
                "    priors = {label: weight + 1.0 for label, weight in _trimmed(together(*parts.values())).items()}\n",
            ),
        ),
    ),
    ReasoningMutant(
        "the model is asked at every step",
        "model oversteps",
        BLIND,
        "budget_is_kept",
        ((PLAN, " or FOUND in case.turn.asked_model:", ":"),),
    ),
    ReasoningMutant(
        "another machine is accused",
        "wrong target",
        BOTH,
        "confirmed_is_verified",
        (
            (
                "graph.engine.assess",
                "hosts=standing.unseen or tuple(sorted({host for row in rows for host in row.accused})),",
                'hosts=("n1",),',
            ),
        ),
    ),
    ReasoningMutant(
        "another part is accused",
        "wrong target",
        BOTH,
        "confirmed_is_verified",
        (
            (
                "graph.engine.assess",
                "devices=() if standing.unseen else tuple(sorted({name for row in rows for name in row.subject.named})),",
                'devices=("n2/gpu0",),',
            ),
        ),
    ),
    ReasoningMutant(
        "a line is quoted that no host printed",
        "swapped result",
        BOTH,
        "quote_is_in_output",
        (
            (
                EXECUTE,
                "    return [*wave.facts, *silent]\n",
                '    return [replace(row, line="never printed " + row.line) for row in (*wave.facts, *silent)]\n',
            ),
        ),
    ),
)


def ends(mutant: ReasoningMutant) -> str:
    """How its story ends with the fault in it."""
    with second_world(mutant.edits) as world:
        return str(world(TELLING).tell(mutant.story).how)
