"""What an incident's pictures are drawn from, read when one is wanted: a picture is of the incident as it is stored then."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from bot.pictures.drawing import Drawing, of_bandwidths, of_heat, of_timeline, of_walk
from bot.postmortem.figures import Expected, nothing_expected
from graph.report import ShownPicture
from graph.rows import IncidentRows
from graph.timeline import Timeline, timeline_of
from graph.walked import walked_tree
from tools.bandwidth import Bandwidths, bandwidths
from tools.evidence import EvidenceStore
from tools.fact import Fact
from tools.heat import Heat
from tools.ledger.record import Record, Refused

log = structlog.get_logger()
NameOf = Callable[[str], Awaitable[str]]


async def no_records(incident: str) -> Sequence[Record]:
    """Nothing was put up for decision."""
    return ()


class FactsGone(Exception):
    """What a picture would be drawn from is not kept any more."""


@dataclass(frozen=True, slots=True)
class DrawnFrom:
    """`titles` are those of the taxonomy's paths, branches too."""

    evidence: EvidenceStore
    name_of: NameOf
    titles: Mapping[str, str] = field(default_factory=dict)
    expected: Callable[[Sequence[Fact]], Expected] = nothing_expected
    records_of: Callable[[str], Awaitable[Sequence[Record]]] = no_records

    async def drawing(self, wanted: ShownPicture, rows: IncidentRows) -> Drawing:
        """What is wanted, still to be drawn. Raises FactsGone."""
        match wanted.kind:
            case "timeline":
                return of_timeline(await self.timeline(rows))
            case "walk":
                return of_walk(walked_tree(rows, self.titles))
            case "bandwidth":
                return of_bandwidths(await self._bandwidths(wanted, rows))
            case _:
                heat = Heat(wanted.key, wanted.hosts)
                heat.add(await self._facts(rows))
                return of_heat(heat)

    async def timeline(self, rows: IncidentRows) -> Timeline:
        """With people by their names. What the ledger cannot say is not on it."""
        try:
            records = await self.records_of(rows.id)
        except Refused as why:
            log.warning("drawings.records_unreadable", incident=rows.id, why=str(why)[:200])
            records = ()
        line = timeline_of(rows, records)
        names = await asyncio.gather(*(self.name_of(user) for user in line.people))
        return line.named(dict(zip(line.people, names, strict=True)))

    async def _bandwidths(self, wanted: ShownPicture, rows: IncidentRows) -> Bandwidths:
        """Of the hosts that are named; else of all that were measured."""
        facts = await self._facts(rows)
        hosts = wanted.hosts or tuple(sorted({fact.host for fact in facts if fact.host}))
        whole = bandwidths(hosts, facts, self.expected(facts))
        return whole if wanted.hosts else Bandwidths(whole.curves)

    async def _facts(self, rows: IncidentRows) -> Sequence[Fact]:
        try:
            return await self.evidence.facts(str(rows.stored.get("facts", "")))
        except KeyError as why:
            raise FactsGone from why
