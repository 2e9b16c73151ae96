"""What happened since a time, and whether the like happened before. The past is what was read and recorded; what nobody kept is said so."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from graph.engine.age import EVENTS
from graph.engine.reference import is_text
from graph.incident.answers import earlier
from graph.incident.answers.known import Asked, ago, clean, meant, name_of, offer, readable, say, source, unknown_said
from graph.incident.concluded import Concluded
from graph.ladders.ends import does
from tools.fact import Fact, Status
from tools.inventory.ranges import fold

MOST_EVENTS, MOST_ALIKE, MOST_SAID = 5, 2, 16
ALIKE, SAME = 0.2, 0.05
"""How much alike a recorded incident must be to be worth telling; one with the same cause less so."""
MOST_READ = 12
BEFORE = timedelta(hours=6)
"""How long before the report one looks for what changed, where nobody names a time."""


LOGS = frozenset({"dmesg", "sysd", "ipmi", "joblog"})
"""Checks that read what was logged."""


@dataclass(frozen=True, slots=True)
class Happened:
    """One thing that happened at a time, in words."""

    at: datetime
    says: str


async def changed_since(asked: Asked) -> Concluded:
    """What hosts logged and what we did after a time; without one, since the incident was opened."""
    named = meant(asked)
    hosts = named.hosts if named.named else asked.seen
    since = asked.said.at or asked.case.brief.since or asked.case.opened - BEFORE
    rows = sorted((row for row in (*_logged(asked, set(hosts)), *_done(asked, set(hosts))) if row.at >= since), key=lambda row: row.at)
    when = f"{since:%H:%M}" if since.date() == asked.at.date() else f"{since:%Y-%m-%d %H:%M}"
    if not asked.seen:
        return say(asked, [*unknown_said(asked), "I have looked at no machine yet, so I cannot tell what changed."])
    head = f"Since {when} UTC on {fold(hosts)}{':' if rows else ' nothing new was logged, as far as it was read.'}"
    lines = [f"• {row.at:%H:%M:%S} {row.says}" for row in rows[:MOST_EVENTS]]
    lines += [f"• … and {len(rows) - MOST_EVENTS} more"] if len(rows) > MOST_EVENTS else []
    settings = "Settings that were changed without a log line do not show in one reading." if not rows else ""
    return say(asked, [*unknown_said(asked), head, *lines, settings, offer(asked, hosts)])


def _logged(asked: Asked, hosts: set[str]) -> Iterable[Happened]:
    """Events with a time of their own, each kind once a host and device."""
    seen: set[tuple[str, str, str, str]] = set()
    for fact in asked.case.facts:
        name = (fact.host, fact.key, fact.device or "", repr(fact.value))
        if fact.host in hosts and _event(fact) and name not in seen and fact.time:
            seen.add(name)
            yield Happened(fact.time, f"{source(asked, fact.host, fact.check)}: {readable(fact.line, f'{fact.key} {fact.value}')[:110]}")
        elif fact.host in hosts and fact.key == "host.booted_at" and isinstance(fact.value, str) and (at := _moment(fact.value)):
            yield Happened(at, f"{source(asked, fact.host, fact.check)}: {fact.host} was started")


def _event(fact: Fact) -> bool:
    """Logged at a time of its own. What a look merely read bears the time of that look, and its whole check does."""
    return fact.status is Status.OK and fact.key.startswith(EVENTS) and fact.check in LOGS and not is_text(fact.key)


def _moment(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at if at.tzinfo else None


def _done(asked: Asked, hosts: set[str]) -> Iterable[Happened]:
    """What we did to hosts."""
    for row in asked.case.ladders:
        if row.target in hosts and row.drained_at:
            yield Happened(row.drained_at, f"{row.target} was drained by RackMedic for {asked.title(row.label)}")
        if row.target in hosts and row.since:
            yield Happened(row.since, f"{row.target}: last remedy begun for {asked.title(row.label)}; {row.says or does(row)}")


async def happened_before(asked: Asked) -> Concluded:
    """What came back in this one, closed incidents of the same host or cause, and recorded ones like it."""
    back = [row for row in asked.case.ladders if row.outcome == "recurred"]
    yes = "Yes, in this incident" if asked.said.predicate == "happened" else "In this incident"
    lines = [f"{yes}: {asked.title(row.label)} on {row.target} came back after a fix." for row in back[:2]]
    of = earlier.sought(asked)
    kept, threads = earlier.told(asked, of, await asked.ports.earlier(of))
    concluded = say(asked, [*lines, *kept, *_in_the_log(asked), *await _recorded(asked)], most=MOST_SAID)
    return replace(concluded, report=concluded.report.model_copy(update={"threads": threads}))


def _in_the_log(asked: Asked) -> list[str]:
    old = [fact for fact in (*asked.now.old, *asked.now.odd) if fact.attrs.get("aged") and fact.host]
    return [
        f"On {fact.host} the {name_of(fact.check)} shows it {ago(fact.time, asked.at)} too: {clean(fact.line, 100)}" for fact in old[:1]
    ]


async def _recorded(asked: Asked) -> list[str]:
    """Incidents that RackMedic brings along or that exports told of: those with the same cause, else those that sound alike. A lesson of a
    closed incident is left out: closed incidents are told by themselves, with their hosts, and this one's own is no earlier one."""
    causes, titles = asked.roots, asked.title
    words = " ".join(filter(None, (asked.case.brief.text, *(titles(row.label) for row in causes))))
    known = await asked.ports.history.similar(words, MOST_READ, asked.case.reader) if words else []
    alike = [row for row in known if not row.learnt or row.learnt == row.lesson]
    labels = {row.label for row in causes}
    same = [row for row in alike if row.label in labels and row.score >= SAME]
    found = [row for row in alike if row.score >= ALIKE]
    head = f"Of the recorded incidents that I know from elsewhere, {'the same cause' if same else 'those that sound alike'}:"
    rows = [
        f"• {clean(row.title, 120) or titles(row.label)}{'' if row.label in labels else f' (it was: {titles(row.label)})'}"
        for row in (same or found)[:MOST_ALIKE]
    ]
    return [head, *rows] if rows else []
