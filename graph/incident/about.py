"""The question asked comes first: what is said of the hosts that somebody asked about, before what was seen elsewhere. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

from graph.engine.age import old_in_words
from graph.engine.assess import Assessment
from graph.engine.peers import rare_first
from graph.engine.reference import is_text
from graph.incident.case import Case
from graph.report import AboutHosts, Found
from graph.state import Hypothesis
from tools.inventory.ranges import expand, fold

LONGEST_LINE = 160
HELD = ("proc.stopped", "proc.blocked")
"""Keys of processes that do not run, whatever they call themselves."""
MOST_DIFFERENCES, LONGEST_DIFFERENCE = 5, 240


def asked_first(
    roots: Sequence[Hypothesis], hosts: Iterable[str], shown: Mapping[str, Collection[str]] = MappingProxyType({})
) -> tuple[list[Hypothesis], list[Hypothesis]]:
    """Causes on these hosts, and those elsewhere, each in their order. All are on them where nobody asked about any. `shown`: label → hosts
    that show it, of which the evidence cites some."""
    asked = set(hosts)
    here = [row for row in roots if not asked or _concerns(row, asked, shown.get(row.label, ()))]
    return here, [row for row in roots if row not in here]


def _concerns(row: Hypothesis, asked: set[str], shown: Collection[str]) -> bool:
    """A cause without a guilty machine concerns those that show it; what people handed in is about what they ask."""
    where = set(row.hosts) or {cited.host for cited in row.evidence} | set(shown)
    return not where or bool(where & (asked if row.hosts else asked | {""}))


def about_hosts(case: Case, now: Assessment) -> AboutHosts | None:
    """What is known of the hosts asked about. None where nobody asked about any, or where their trouble is told as a diagnosis anyhow."""
    hosts = tuple(expand(case.turn.about))
    here, elsewhere = asked_first(now.root_causes(), hosts, now.shown)
    if not hosts or not (elsewhere or case.turn.question):
        return None
    coverage = replace(now.coverage, hosts=hosts)
    looked = {check for host, check in coverage.asked if host in hosts and check in now.lens.checks and coverage.looked(host, check)}
    blind = {check for host, check, _ in coverage.blind_spots() if host in hosts}
    blind |= {row.names for row in now.hidden if set(row.hosts) & set(hosts)}
    odd = _odd(now, hosts)
    found: Found = "fault" if here else "odd" if odd else "blind" if blind or coverage.never_asked() else "nothing"
    return AboutHosts(
        hosts=hosts,
        found=found,
        checks=len(looked),
        read=_read(case, hosts),
        blind=tuple(sorted(blind)),
        line=odd,
        differs="".join(differences_said(case, now)[:1]),
    )


def _odd(now: Assessment, hosts: Sequence[str]) -> str:
    """What is abnormal there and no cause explains, or what is likely there and not proven. What a job prints there says nothing of the host;
    that the kernel or a signal holds a process does."""
    lines = [fact.in_words() for fact in now.odd if fact.host in hosts and (not is_text(fact.key) or fact.key in HELD)]
    lines += [f"{row.leaf.title} is likely and unproven" for row in now.suspects if set(row.subject.hosts) & set(hosts)]
    return lines[0][:LONGEST_LINE] if lines else ""


def _read(case: Case, hosts: Sequence[str]) -> datetime | None:
    """When the one that was looked at longest ago was last looked at. A log's lines have times of their own."""
    latest = [[fact.time for fact in case.facts if fact.host == host and fact.time and not is_text(fact.key)] for host in hosts]
    return min((max(times) for times in latest if times), default=None)


def differences_said(case: Case, now: Assessment) -> tuple[str, ...]:
    """What the hosts asked about have otherwise, in a few lines."""
    asked = set(expand(case.turn.about)) or set(case.hosts)
    rows = rare_first((fact for fact in now.differing if fact.host in asked), (case.brief.text,))
    return tuple(f"{fact.host}: {fact.in_words()}"[:LONGEST_DIFFERENCE] for fact in rows[:MOST_DIFFERENCES])


def old_said(case: Case, now: Assessment) -> tuple[str, ...]:
    """Return what logs say of long ago, in a few lines."""
    rows = (f"{fact.host or 'in what was handed in'}: {old_in_words(fact, case.item.at)}" for fact in now.old[:MOST_DIFFERENCES])
    return tuple(row[:LONGEST_DIFFERENCE] for row in rows)


def in_words(about: AboutHosts, today: datetime) -> str:
    """`gpu-002: 22 checks, read 08:17, nothing abnormal.`"""
    if not about.checks:
        return f"{fold(about.hosts)}: could not be looked at."
    when = f", read {about.read:{'%H:%M' if about.read.date() == today.date() else '%m-%d %H:%M'}}" if about.read else ""
    what = f"abnormal: {about.line}" if about.found == "odd" else f"nothing abnormal{f', but {about.differs}' if about.differs else ''}"
    blind = (
        f"; could not look with {', '.join(about.blind[:6])}"
        if about.blind
        else "; not all was looked at"
        if about.found == "blind"
        else ""
    )
    return f"{fold(about.hosts)}: {about.checks} check{'s' * (about.checks != 1)}{when}, {what}{blind}."
