"""B6: AidAI's online diagnosis (§4.2 of the paper, Algorithm 1), rebuilt on this catalogue of checks and this taxonomy.

Where the paper is open, the choice favours it: retrieval is BM25 and one call that orders the eight nearest (paper:
vectors and an LLM reranker, §5); a job's hosts are checked in parallel (the paper measures one machine, Figure 10); the
model sees typed findings instead of raw output; the third pipeline's first suggestion counts as a diagnosis (Table 3
counts it as resolved), and may be that nothing is wrong.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from graph.extraction.reports import parse_report
from graph.model.prompt_texts import flatten_texts, number_lines, shorten_text
from graph.state import IncidentBrief
from kb.history.index import PastIncidentIndex, SimilarIncident
from tests.bench.arms.arm import Account, Answer, Stage
from tests.bench.arms.model_arms import Causes, answer_of, costing, every_label, kept, line_of, report_of
from tests.bench.arms.rule_arms import Bench
from tests.bench.model.endpoint import Line, Typed
from tools.fact import Fact

NEAREST, HYPOTHESES, MOST_DIGEST = 8, 2, 6_000

PIPELINE = "by pipeline"  # prefix of an account that names the answer's pipeline

# Table 7 in this catalogue's checks: verification of a main category. The level below has no scripts in the paper.
CATEGORY_CHECKS = {
    "GPU": ("smi", "nvlink", "bw", "cuda"),
    "SYSTEM_SOFTWARE": ("cuda", "mods", "dmesg", "sysd"),
    "INTERCONNECT": ("nccl1", "ibstat", "nvlink", "lspci", "ibbw"),
    "FRAMEWORK": ("e2e", "gemm", "store", "vers"),
    "USER": ("e2e",),
    "OTHER": (),
}


class Summary(Typed):
    summary: str


class Alike(Typed):
    incidents: list[str]


class Ranked(Typed):
    labels: list[str]


class Verdict(Typed):
    """The answer to `prompts/judge.md`. `cites`: numbers of findings."""

    verdict: Literal["confirmed", "rejected", "inconclusive"]
    because: str
    cites: list[str]


class Conclusion(Typed):
    causes: list[str]
    report: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of a verification result, and its fact."""

    line: str
    fact: Fact | None = None


@dataclass(frozen=True, slots=True)
class Valid:
    """A hypothesis that the reflection agent validated, with the cited findings."""

    label: str
    cites: tuple[Finding, ...]


Memory = tuple[Finding, ...]


@dataclass(slots=True)
class Incident:
    """One incident. `records` are the second pipeline's interactions, for the third."""

    stage: Stage
    line: Line
    bench: Bench
    brief: IncidentBrief = field(default_factory=IncidentBrief)
    records: list[str] = field(default_factory=list)

    async def summarised(self) -> None:
        """Summarisation agent (§4.2, Appendix A): the text that the other agents read."""
        said = await self.line.put("summary", {}, {"Report": report_of(self.stage)}, Summary)
        text = said.summary if said and said.summary.strip() else self.stage.text
        rules = parse_report(self.stage.text, self.bench.hosts, self.stage.now)
        self.brief = IncidentBrief(text=text, symptoms=rules.symptoms, signatures=rules.signatures, hosts=rules.hosts)

    async def from_history(self) -> list[Valid]:
        """Pipeline 1 (§4.2.1): verify the causes of the two most similar incidents."""
        valid: list[Valid] = []
        for label in await self._similar():
            valid += await self._validated(label, await self.interaction(label))
        return valid

    async def _similar(self) -> list[str]:
        history = PastIncidentIndex(self.stage.knowledge.past)
        near = [one for one in await history.find_similar(self.brief.text, NEAREST) if one.label in self.stage.knowledge.taxonomy.leaves]
        await history.close()
        order = await self._reranked(near) if len(near) > HYPOTHESES else near
        return list(dict.fromkeys(one.label for one in order[:HYPOTHESES]))

    async def _reranked(self, near: Sequence[SimilarIncident]) -> list[SimilarIncident]:
        by_id = {f"p{n}": one for n, one in enumerate(near, 1)}
        texts = "\n".join(f"{name}: {one.incident.text[:400]}" for name, one in by_id.items())
        data = {"Report": self.brief.text, "What they were": texts}
        said = await self.line.put("rerank", {"Past incidents": list(by_id)}, data, Alike, incidents=list(by_id))
        first = kept(said.incidents, by_id) if said else ()
        return [by_id[name] for name in (*first, *(name for name in by_id if name not in first))]

    async def diagnosis(self, node: str, memory: Memory) -> list[Valid]:
        """Algorithm 1: return everything valid below a node. A leaf is validated by reflection; otherwise explore its
        children in order.
        """
        children = self.stage.knowledge.taxonomy.list_children(node)
        if not children:  # lines 3-6
            return await self._validated(node, memory)
        valid: list[Valid] = []
        for child in await self._worth_exploring(children, memory):  # lines 8-9, 11
            seen = await self.interaction(child)  # line 12
            below = (*memory, *seen)  # line 13
            valid += await self.diagnosis(child, below)  # line 14
            # Line 15: findings of this child are not added to `memory`, and the next child's checks run anew.
        return valid

    async def _worth_exploring(self, children: Sequence[str], memory: Memory) -> tuple[str, ...]:
        """Planning agent: return children in the model's order; omitted ones are pruned, none at all stops early."""
        digest = "\n".join(one.line for one in memory)
        data = {"Report": shorten_text(self.brief.text, MOST_DIGEST), "Findings": shorten_text(digest, MOST_DIGEST) or "none"}
        said = await self.line.put("rank", {"Causes": list(children)}, data, Ranked, labels=list(children))
        return kept(said.labels, children) if said else ()

    async def interaction(self, node: str) -> Memory:
        """Execution agent: run a node's scripts in sequence, without any cache."""
        taxonomy, known = self.stage.knowledge.taxonomy, self.stage.knowledge.checks
        leaf = taxonomy.leaves.get(node)
        scripts = dict.fromkeys((*leaf.checks, *leaf.confirms) if leaf else CATEGORY_CHECKS.get(node, ()))
        ran = [check for check in scripts if check in known]
        self.bench.forget()
        for check in ran:
            await self.bench.look([(host, check) for host in self.bench.hosts])
        return self._seen(node if leaf else "", ran) if ran else ()

    def _seen(self, label: str, ran: Sequence[str]) -> Memory:
        now = self.bench.assessed
        facts = self.bench.telling(label) if label else list(now.abnormal_facts)
        found = [Finding(f"{fact.host} {fact.check}: {fact.line or f'{fact.key}={fact.value}'}"[:240], fact) for fact in facts]
        found += [Finding(f"{row.host} {row.check}: could not look: {row.why}"[:240]) for row in now.list_unobserved()]
        return tuple(found) or (Finding(f"nothing abnormal: {', '.join(ran)}"),)

    async def _validated(self, label: str, memory: Memory) -> list[Valid]:
        """Reflection agent: judge a hypothesis from memory, newest last."""
        recent = memory[-60:]
        lines = [one.line for one in recent] or ["no check could be run"]
        claim = f"{label} of {', '.join(self.brief.hosts) or 'the job'}"
        verdict = await self.line.put("judge", {"Suspected cause": [claim]}, {"Findings": number_lines(flatten_texts(lines))}, Verdict)
        if verdict is None:
            return []
        self.records.append(f"{label}: {verdict.verdict}, {verdict.because}"[:200])
        return (
            [Valid(label, tuple(recent[int(n)] for n in verdict.cites if n.isdigit() and int(n) < len(recent)))]
            if verdict.verdict == "confirmed"
            else []
        )

    async def concluded(self, valid: Sequence[Valid]) -> Answer:
        """Conclusion agent: report every validated cause, primary ones first."""
        labels = list(dict.fromkeys(one.label for one in valid))
        lines = "\n".join(f"{one.label}: {finding.line}" for one in valid for finding in one.cites)
        data = {"Report": self.brief.text, "Findings": lines or "none"}
        said = await self.line.put("conclusion", {"Causes": labels}, data, Conclusion, causes=labels)
        order = kept(said.causes, labels) if said else ()
        facts = [finding.fact for one in valid for finding in one.cites if finding.fact]
        hosts = [fact.host for fact in facts if fact.host]
        return answer_of(
            self.stage, [*order, *(label for label in labels if label not in order)], hosts, [(fact.check, fact.host) for fact in facts]
        )

    async def explored(self) -> Answer:
        """Pipeline 3 (§4.2.3): suggest other causes from all labels and pipeline 2's records, for people to try."""
        labels, hosts = every_label(self.stage), list(self.bench.hosts)
        data = {"Report": self.brief.text, "Findings": "\n".join(self.records[-100:]) or "none"}
        said = await self.line.put("causes", {"Causes": labels, "Hosts": hosts}, data, Causes, labels=labels, hosts=hosts)
        return answer_of(self.stage, kept(said.labels, labels)[:1], kept(said.hosts, hosts)) if said else answer_of(self.stage, ())


class AidAI:
    """B6: history, then the taxonomy, then suggestions; checks strictly in sequence."""

    async def solve(self, stage: Stage) -> Answer:
        line = line_of(stage)
        incident = Incident(stage, line, Bench(stage))
        await incident.summarised()
        number, valid = 1, await incident.from_history()
        if not valid:
            number, valid = 2, await incident.diagnosis("", ())
        if not valid:
            number = 3
        answer = await incident.concluded(valid) if valid else await incident.explored()
        told = replace(answer, account=Account(f"{PIPELINE} {number}"))
        return costing(told, stage, incident.bench.cost)
