"""Faults in the nodes of a turn, by MAS-FIRE's kinds: none may lead to a false claim. docs/reasoning.md shows them."""

from dataclasses import dataclass
from typing import Literal

from graph.engine.assessment import Assessment
from graph.engine.priors import compute_model_priors
from graph.incident.conclude import _build_diagnosis, _get_outcome
from graph.incident.context import assess_incident, merge_facts
from graph.incident.findings_reading import read_findings
from graph.incident.plan import _plan_first_round
from graph.incident.run_checks import list_wave_facts
from tests.properties.mutation import Edit, Mutant, run_mutant, unchanged
from tests.properties.reasoning_stories import STORIES, tell

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
class ReasoningMutant(Mutant):
    """One fault. `breaks`: its FaultKind; `when`: its story; `ends`: the contract that names it, or an abstention."""

    when: str = ""
    ends: str = ""

    def row(self) -> str:
        """Return the fault's table row."""
        return f"| {self.breaks} | {self.name} | {self.ends} |"


BOTH, HIDDEN, BLIND, MENDED = (
    "two faults on two hosts",
    "the looks that would tell are refused",
    "a model reads where nothing can be seen",
    "mended before the next look",
)
ABSTAINS = "an abstention"

REASONING_MUTANTS: tuple[ReasoningMutant, ...] = (
    ReasoningMutant(
        "the report names a cause that nobody knows",
        "unknown label",
        (
            Edit(
                _build_diagnosis,
                "root_causes=roots",
                "root_causes=tuple((cause.model_copy(update={'label': 'GPU.BUS.Invented'}) for cause in roots))",
            ),
        ),
        when=BOTH,
        ends="known_labels",
    ),
    ReasoningMutant(
        "similar incidents bring a cause that nobody knows",
        "unknown label",
        (
            Edit(_plan_first_round, "past=tuple(label for label, _ in past_labels)", 'past=("GPU.BUS.Invented",)'),
            Edit(_plan_first_round, "priors=priors", 'priors={"GPU.BUS.Invented": 1.5}'),
        ),
        when=HIDDEN,
        ends="moves_are_bounded",
    ),
    ReasoningMutant(
        "what is ruled out is reported as found",
        "flipped verdict",
        (
            Edit(
                _build_diagnosis,
                "root_causes=roots",
                "root_causes=tuple((assessment.build_hypothesis('GPU.THERMAL.Hot').model_copy(update={'verdict': 'confirmed'}) for _ in '1'))",
            ),
        ),
        when=BOTH,
        ends="confirmed_is_verified",
    ),
    ReasoningMutant(
        "what is found is reported as ruled out",
        "flipped verdict",
        (
            Edit(_build_diagnosis, "root_causes=roots", "root_causes=()"),
            Edit(
                _build_diagnosis,
                "assessment.list_ruled_out(suspected=suspected_labels)",
                "[one.model_copy(update={'verdict': 'rejected'}) for one in roots]",
            ),
        ),
        when=BOTH,
        ends="confirmed_is_reported",
    ),
    ReasoningMutant(
        "a cause that was found is not reported",
        "lost message",
        (Edit(_build_diagnosis, "root_causes=roots", "root_causes=roots[:1]"),),
        when=BOTH,
        ends="confirmed_is_reported",
    ),
    ReasoningMutant(
        "no fault is said whatever was found",
        "flipped verdict",
        (
            Edit(_build_diagnosis, "root_causes=roots", "root_causes=()"),
            Edit(
                _get_outcome, "'abstained' if context.turn.cut and assessment.finding != 'diagnosed' else assessment.finding", "'no_fault'"
            ),
        ),
        when=BOTH,
        ends="confirmed_is_reported",
    ),
    ReasoningMutant(
        "two hosts' answers change places",
        "swapped result",
        (
            Edit(
                list_wave_facts,
                "[*answers.facts, *silent]",
                '[replace(row, host={"n2": "n3", "n3": "n2"}.get(row.host, row.host)) for row in (*answers.facts, *silent)]',
            ),
        ),
        when=BOTH,
        ends="answer_is_its_hosts",
    ),
    ReasoningMutant(
        "an answer comes under a host that never gave it",
        "swapped result",
        (
            Edit(
                list_wave_facts,
                "[*answers.facts, *silent]",
                '[replace(row, host="n1" if row.host == "n2" else row.host) for row in answers.facts] + silent',
            ),
        ),
        when=BOTH,
        ends="nothing_is_lost",
    ),
    ReasoningMutant(
        "the answers of one check are lost on the way",
        "lost message",
        (Edit(list_wave_facts, "[*answers.facts, *silent]", "[row for row in (*answers.facts, *silent) if row.check != 'mem']"),),
        when=BOTH,
        ends="nothing_is_lost",
    ),
    ReasoningMutant(
        "a host's answers never come",
        "lost message",
        (Edit(list_wave_facts, "[*answers.facts, *silent]", "[row for row in (*answers.facts, *silent) if row.host != 'n2']"),),
        when=HIDDEN,
        ends="nothing_is_lost",
    ),
    ReasoningMutant(
        "every answer comes twice",
        "repeated message",
        (Edit(list_wave_facts, "[*answers.facts, *silent]", "[*answers.facts, *answers.facts, *silent]"),),
        when=BOTH,
        ends="nothing: it says the truth",
    ),
    ReasoningMutant(
        "facts are weighed that were read before they were mended",
        "stale state",
        (
            Edit(
                assess_incident,
                "cast('Assessment', graph_context.recent[cache_key])",
                "remembered.setdefault(turn.hosts, cast('Assessment', graph_context.recent[cache_key]))",
                {"remembered": {}},
            ),
        ),
        when=MENDED,
        ends="confirmed_is_verified",
    ),
    ReasoningMutant(
        "what is new does not replace what is old",
        "stale state",
        (
            Edit(
                merge_facts,
                "[fact for fact in old if (fact.host, fact.check) not in new_pairs] + added_facts",
                "[*old, *(row for row in added_facts if not old)]",
            ),
        ),
        when=MENDED,
        ends="answer_is_its_hosts",
    ),
    ReasoningMutant(
        "a reading moves a belief as far as it likes",
        "model oversteps",
        (Edit(compute_model_priors, "MODEL_LOG_ODDS", "9"),),
        when=BLIND,
        ends="moves_are_bounded",
    ),
    ReasoningMutant(
        "a belief is moved by nobody",
        "model oversteps",
        (
            Edit(
                _plan_first_round,
                "trim_priors(sum_priors(*source_weights.values()))",
                "{label: weight + 1.0 for label, weight in trim_priors(sum_priors(*source_weights.values())).items()}",
            ),
        ),
        when=HIDDEN,
        ends="moves_are_bounded",
    ),
    ReasoningMutant(
        "the model is asked at every step",
        "model oversteps",
        (
            Edit(read_findings, "readings < MAX_READINGS", "True"),
            Edit(read_findings, "readings + 1 == MAX_READINGS", "False"),
        ),
        when=BLIND,
        ends="budget_is_kept",
    ),
    ReasoningMutant(
        "another machine is accused",
        "wrong target",
        (
            Edit(
                Assessment.build_hypothesis,
                "verdict.unobserved_hosts or verdict.showing_hosts or tuple(sorted({host for belief in beliefs for host in belief.accused}))",
                "('n1',)",
            ),
        ),
        when=BOTH,
        ends="confirmed_is_verified",
    ),
    ReasoningMutant(
        "another part is accused",
        "wrong target",
        (
            Edit(
                Assessment.build_hypothesis,
                "() if verdict.unobserved_hosts or verdict.showing_hosts else tuple(sorted({name for belief in beliefs for name in belief.subject.named_devices}))",
                "('n2/gpu0',)",
            ),
        ),
        when=BOTH,
        ends="confirmed_is_verified",
    ),
    ReasoningMutant(
        "a line is quoted that no host printed",
        "swapped result",
        (
            Edit(
                list_wave_facts,
                "[*answers.facts, *silent]",
                "[replace(row, line='never printed ' + row.line) for row in (*answers.facts, *silent)]",
            ),
        ),
        when=BOTH,
        ends="quote_is_in_output",
    ),
)


def ending(mutant: ReasoningMutant) -> str:
    return run_mutant(mutant, lambda: tell(mutant.when).how)


def endings_without_fault() -> str:
    """Return the end of every story without a fault, one per line."""
    return run_mutant(unchanged(REASONING_MUTANTS), lambda: "\n".join(tell(story).how for story in STORIES))
