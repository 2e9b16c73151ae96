"""A diagnosis is kept with its reasoning, and holds only if every contract over that does: where one is broken the turn abstains and says so."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from typing import Any

import structlog

from graph.engine.assess import Assessment
from graph.incident.case import MANY, Case, lens_of
from graph.incident.concluded import Concluded
from graph.incident.lifecycle import Came, becomes
from graph.ports import Ports
from graph.reasoning.build import Thought, reasoned
from graph.reasoning.contracts import Breach, ReasonGround, Verified, catalogue_digest, in_text, outputs_of, verify
from graph.reasoning.moves import read_moves
from graph.reasoning.nodes import ReasonGraph
from graph.reasoning.receipts import Receipts
from graph.report import Report
from graph.state import Hypothesis, Incident
from tools.evidence import EvidenceStore
from tools.fact import Fact
from tools.inventory.ranges import expand

log = structlog.get_logger()
MOST_OUTPUTS, LONGEST_OUTPUT = 8, 1 << 20
"""Cited outputs that are read once more at the end of a turn, and how long one may be; `rackmedic explain --verify` reads them all."""
MOST_TOLD = 3


@dataclass(frozen=True, slots=True)
class StandsOn:
    """What a kept reasoning stands on: digests of facts and receipts, and the turn as it was."""

    facts: str = ""
    receipts: str = ""
    hosts: str = ""
    priors: Mapping[str, float] = field(default_factory=dict)
    moves: str = ""
    asked: Mapping[str, int] = field(default_factory=dict)
    opened: str = ""


async def checked(concluded: Concluded, case: Case, now: Assessment, ports: Ports) -> tuple[Concluded, dict[str, Any]]:
    """The same with its reasoning kept, or an abstention where that does not hold; and what the incident keeps of it."""
    turn, brought = case.turn, await _with_brought(case, ports)
    receipts, asked = brought.get("receipts", case.stored.get("receipts", "")), dict(Counter(turn.asked_model))
    under = StandsOn(case.snapshot, receipts, turn.hosts, dict(turn.priors), turn.moves, asked, case.onset.isoformat())
    graph = reasoned(
        Thought(
            incident=case.id,
            report=concluded.report,
            now=now,
            taxonomy=ports.taxonomy,
            moves=read_moves(turn.moves, turn.priors),
            catalogue=_catalogue(ports),
            ground=asdict(under),
            earlier={(row.label, row.target) for row in case.ladders},
        )
    )
    ground = await _ground(graph, under, case.facts, concluded.report.root_causes, ports)
    large = len(case.facts) > MANY or any(ground.outputs.values())
    came = await asyncio.to_thread(verify, graph, ground) if large else verify(graph, ground)
    kept = {"reasoning": await ports.evidence.put(case.id, graph.text()), **brought}
    if not came.broken:
        return concluded, kept
    log.error("reasoning.broken", incident=case.id, contracts=[str(row)[:200] for row in came.broken[:MOST_TOLD]])
    return distrusted(concluded, case, came.broken), kept


def _catalogue(ports: Ports) -> str:
    """Digest of the catalogue; worked out once for one."""
    name = ("catalogue", id(ports.taxonomy))
    if name not in ports.recent:
        ports.recent[name] = catalogue_digest(ports.taxonomy)
    return str(ports.recent[name])


async def _with_brought(case: Case, ports: Ports) -> dict[str, str]:
    """The receipts with what an approved check brought in this turn, as a new digest; nothing where it brought none."""
    brought = str(case.item.data.get("facts") or "") if case.item.kind == "action_result" else ""
    if not brought:
        return {}
    try:
        receipts = (await _receipts(case.stored.get("receipts", ""), ports)).with_facts(await ports.evidence.facts(brought))
    except KeyError:
        return {}
    return {"receipts": await ports.evidence.put(case.id, receipts.text())}


async def _receipts(sha256: str, ports: Ports) -> Receipts:
    return Receipts.read((await ports.evidence.get(sha256) if sha256 else None) or "")


async def _ground(
    graph: ReasonGraph, under: StandsOn, facts: Sequence[Fact], causes: Sequence[Hypothesis] | None, ports: Ports, *, whole: bool = False
) -> ReasonGround:
    """What its contracts are checked against; `whole`: with every output that it cites, however long."""
    lens = lens_of(ports, facts)

    def read_again(check: str, texts: Sequence[str]) -> Sequence[Fact]:
        row = lens.checks.get(check)
        read = [fact for text in texts for fact in row.read(text)] if row else []
        return row.settle(read) if row and row.settle else read

    return ReasonGround(
        facts=facts,
        lens=lens,
        taxonomy=ports.taxonomy,
        hosts=expand(under.hosts),
        causes=causes,
        moves=read_moves(under.moves, under.priors),
        priors=under.priors,
        receipts=await _receipts(under.receipts, ports),
        outputs=await _outputs(graph, facts, ports, whole=whole),
        read_again=read_again,
        asked=under.asked,
        opened=datetime.fromisoformat(under.opened) if under.opened else None,
    )


async def _outputs(graph: ReasonGraph, facts: Sequence[Fact], ports: Ports, *, whole: bool) -> Mapping[str, str | None]:
    """Texts of what is cited; where a line does not stand in its own, also of what else its check printed there."""
    decides = {edge.source for edge in graph.edges if edge.kind == "decides" or whole}
    cited = [node for node in graph.of_kind("verification") if node.sha256 and node.id in decides]
    cited = cited if whole else cited[:MOST_OUTPUTS]
    texts = {sha256: await _text(sha256, ports, whole=whole) for sha256 in dict.fromkeys(node.sha256 for node in cited)}
    apart = [node for node in cited if (text := texts[node.sha256]) is not None and not in_text(node.line, text)]
    for sha256 in dict.fromkeys(one for node in apart for one in outputs_of(facts, node.host, node.check)):
        if sha256 not in texts:
            texts[sha256] = await _text(sha256, ports, whole=whole)
    return texts


async def _text(sha256: str, ports: Ports, *, whole: bool) -> str | None:
    text = await ports.evidence.get(sha256)
    return text if whole or text is None or len(text) <= LONGEST_OUTPUT else None


def distrusted(concluded: Concluded, case: Case, broken: Sequence[Breach]) -> Concluded:
    """An abstention in the place of what does not hold: nothing is claimed and nothing is proposed; fixes that were there before wait as they did."""
    said = tuple(str(row) for row in broken[:MOST_TOLD])
    report = Report(
        item=concluded.report.item,
        outcome="abstained",
        headline=f"I do not trust what I concluded and claim nothing: {said[0]}.",
        could_not_look=concluded.report.could_not_look,
        without_model=concluded.report.without_model,
        broken=said,
        next_step="This is a fault of mine, not of your machines: say recheck, or hand the incident over.",
    )
    unsure = [row.model_copy(update={"verdict": "inconclusive"}) for row in concluded.hypotheses or ()]
    return replace(concluded, report=report, hypotheses=unsure, ladders=None, ticket=None, lifecycle=becomes(case.lifecycle, Came.QUESTION))


async def kept_reasoning(state: Incident, evidence: EvidenceStore) -> ReasonGraph | None:
    """The graph of the latest diagnosis; None where nothing was diagnosed or it is not kept any more."""
    sha256 = state.get("reasoning", "")
    text = await evidence.get(sha256) if sha256 else None
    try:
        return ReasonGraph.read(text) if text else None
    except ValueError:
        return None


async def verified(graph: ReasonGraph, ports: Ports) -> Verified:
    """Every contract of a kept reasoning, against everything that is still kept. Its facts gone, it cannot be checked."""
    known = {row.name for row in fields(StandsOn)}
    under = StandsOn(**{name: value for name, value in graph.ground.items() if name in known})
    try:
        facts = await ports.evidence.facts(under.facts)
    except KeyError:
        return Verified(unchecked=("the facts behind it are not kept any more, or not on this machine",))
    return await asyncio.to_thread(verify, graph, await _ground(graph, under, facts, None, ports, whole=True))
