"""Arms with one model question: retrieval, ticket alone, and all check results. They use the product's marks around
untrusted text and accept offered ids only.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace

from graph.engine.assessment import Assessment
from graph.model.client import shorten_text
from kb.history.index import PastIncidentIndex
from tests.bench.arms.arm import Answer, Cost, NotRun, Stage
from tests.bench.arms.rule_arms import Bench
from tests.bench.case_files.truth import ABSTAIN, NO_FAULT
from tests.bench.model.endpoint import Line, Typed

# maximum characters of a ticket with attachments, and of check results, in a question
MOST_TICKET, MOST_RESULTS = 12_000, 24_000
SIMILAR = 5
ABOVE_THE_MACHINE = ("job", "cluster", "switch")


class Causes(Typed):
    """The answer to `prompts/causes.md`."""

    labels: list[str]
    hosts: list[str]


def line_of(stage: Stage) -> Line:
    """Return the case's model line. Raises NotRun."""
    if stage.line is None:
        raise NotRun("no model")
    return stage.line


def report_of(stage: Stage) -> str:
    """Return the ticket with its attachments."""
    return shorten_text("\n".join((stage.text, *(f"{name}:\n{text}" for name, text in stage.attachments))), MOST_TICKET)


def every_label(stage: Stage) -> list[str]:
    return [NO_FAULT, *stage.knowledge.taxonomy.leaves]


async def named(stage: Stage, labels: Sequence[str], findings: str) -> Answer:
    """Ask one question with these labels to choose from."""
    line, hosts, offered = line_of(stage), list(stage.inventory.hosts), list(labels)
    data = {"Report": report_of(stage), **({"Findings": findings} if findings else {})}
    said = await line.put("causes", {"Causes": offered, "Hosts": hosts}, data, Causes, labels=offered, hosts=hosts)
    return answer_of(stage, kept(said.labels, offered), kept(said.hosts, hosts)) if said else Answer((ABSTAIN,), cost=line.cost)


def kept(said: Sequence[str], offered: Collection[str]) -> tuple[str, ...]:
    """Return the offered values of an answer, without duplicates, in order."""
    return tuple(dict.fromkeys(one for one in said if one in offered))


def answer_of(stage: Stage, labels: Sequence[str], hosts: Sequence[str] = (), evidence: Sequence[tuple[str, str]] = ()) -> Answer:
    """Return labels as an answer: a verdict is alone, and only machine faults have hosts."""
    cost = line_of(stage).cost
    if not labels or labels[0] in (NO_FAULT, ABSTAIN):
        return Answer((labels[0] if labels else ABSTAIN,), cost=cost)
    causes = tuple(label for label in labels if label != NO_FAULT)
    machine = any(stage.knowledge.taxonomy.get_leaf(label).scope not in ABOVE_THE_MACHINE for label in causes)
    return Answer(causes, tuple(sorted(set(hosts))) if machine else (), evidence=tuple(dict.fromkeys(evidence)), cost=cost)


def costing(answer: Answer, stage: Stage, looks: Cost, writes: int = 0) -> Answer:
    """Return the answer with all costs."""
    return replace(answer, cost=line_of(stage).cost + looks, writes=writes)


class RetrieveAndAsk:
    """B2, after RCACopilot as run in AidAI's §6.1: similar past incidents, and one call that chooses among their
    causes.
    """

    async def solve(self, stage: Stage) -> Answer:
        history = PastIncidentIndex(stage.knowledge.past)
        similar = [one for one in await history.find_similar(stage.text, SIMILAR) if one.label in stage.knowledge.taxonomy.leaves]
        await history.close()
        if not similar:
            return answer_of(stage, ())
        past = "\n".join(f"{one.label}: {one.incident.text[:600]}" for one in similar)
        return await named(stage, [NO_FAULT, *dict.fromkeys(one.label for one in similar)], f"Incidents like it were:\n{past}")


class OneShot:
    """B3, after DID of AidAI's §6.1: ticket and every label, one call."""

    async def solve(self, stage: Stage) -> Answer:
        return await named(stage, every_label(stage), "")


class EverythingAndAsk:
    """B4, after CVD of AidAI's §6.1: all checks in sequence, then one call with results and every label. The rules'
    verdict is withheld.
    """

    async def solve(self, stage: Stage) -> Answer:
        bench = Bench(stage)
        await bench.everything()
        answer = await named(stage, every_label(stage), shorten_text("\n".join(results(bench.assessed)), MOST_RESULTS))
        return costing(answer, stage, bench.cost)


def results(now: Assessment) -> list[str]:
    """Return the checks' results: abnormal facts, unobserved hosts, and checks without findings."""
    odd = [f"{fact.host or 'handed in'} {fact.check}: {fact.line or f'{fact.key}={fact.value}'}"[:240] for fact in now.abnormal_facts]
    blind = [f"{row.host} {row.check}: could not look: {row.why}"[:240] for row in now.list_unobserved()]
    loud = {fact.check for fact in now.abnormal_facts} | {row.check for row in now.list_unobserved()}
    silent = sorted({check for host, check in now.coverage.asked if host and check in now.reference.checks} - loud)
    return [*odd, *blind, *([f"nothing abnormal: {', '.join(silent)}"] if silent else [])]
