"""How much something is off, and how a cause is that was mended: the numbers behind a cause, each with its host and its age. Pure."""

import re
from datetime import datetime

from graph.incident.answers.known import Asked, ago, clean, meant, name_of, offer, say, unknown_said
from graph.incident.concluded import Concluded
from graph.ladders.ends import describe
from graph.state import Ladder
from tools.fact import Fact, Status

MAX_CHARACTERS, MAX_NUMBERS = 400, 4
_HOW_MUCH = re.compile(
    r"\bhow (?:far|much|many|big|large|wide|hot|warm|full|high|low|fast|slow|long|strong|bad)\b|\bby how\b"
    r"|\bwhat (?:is|was)\b[^?]{0,40}\b(?:offset|skew|count|rate)\b",
    re.IGNORECASE,
)


def asks_how_much(asked: Asked) -> bool:
    """Whether a number behind a cause is asked for, and there is one."""
    return bool(_HOW_MUCH.search(asked.said.text[:MAX_CHARACTERS])) and bool(_numbers(asked))


def asks_of_what_was_mended(asked: Asked) -> bool:
    """Whether the cause that a question names was mended on a host that it may mean."""
    return bool(asked.said.labels) and not asked.said.unknown_hosts and bool(mended(asked))


def mended(asked: Asked) -> list[Ladder]:
    """The fixes of the causes that the message names whose proof passed and whose cause nothing shows now."""
    shown = {row.label for row in asked.roots}
    rows = [row for row in asked.case.ladders if row.proven and row.label in asked.said.labels and row.label not in shown]
    return [row for row in rows if not asked.said.hosts or row.target in asked.said.hosts]


async def how_much(asked: Asked) -> Concluded:
    """The numbers behind the cause, on the hosts named, else on those where it was found; and whether it was mended there."""
    fixes, numbers = mended(asked), _numbers(asked)
    lines = [f"{describe(row, asked.title(row.label))}." for row in fixes[:2]]
    lines += [_in_words(asked, fact) for fact in numbers[:MAX_NUMBERS]]
    old = [row.target for row in fixes if row.target not in {fact.host for fact in numbers}]
    lines += [f"No number was read on {host} since then. Say `recheck {host}` and I look." for host in old[:2]]
    return say(asked, [*unknown_said(asked), *lines, offer(asked, tuple(dict.fromkeys(fact.host for fact in numbers if fact.host)))])


def _in_words(asked: Asked, fact: Fact) -> str:
    return f"{fact.host or 'handed in'}: {clean(fact.in_words())} ({name_of(fact.check)}, read {ago(fact.time, asked.at)})."


def _hosts(asked: Asked) -> tuple[str, ...]:
    """Those that the message names, else those where the cause is or was."""
    named = meant(asked)
    if named.named:
        return named.hosts
    at_fault = [host for row in asked.roots if row.label in asked.said.labels for host in row.hosts]
    return tuple(dict.fromkeys(at_fault or [row.target for row in mended(asked)] or named.hosts))


def _numbers(asked: Asked) -> list[Fact]:
    """What the clues of the named causes measure there, once for each device, the largest first. What was read before a fix of it is left out."""
    taxonomy, labels = asked.now.lens.taxonomy, asked.said.labels
    keys = {clue.key for label in labels if label in taxonomy.leaves for clue in taxonomy.leaf(label).evidence}
    rows = [match.fact for label in labels for row in asked.now.by_label.get(label, ()) for match in (*row.support, *row.against)]
    hosts, fixed = _hosts(asked), {row.target: row.since for row in mended(asked)}
    found: dict[tuple[str, str, str], Fact] = {}
    for fact in (*rows, *asked.case.facts):
        if fact.key in keys and fact.host in hosts and _is_number(fact) and _after(fact, fixed.get(fact.host)):
            found.setdefault((fact.host, fact.key, fact.device or ""), fact)
    return sorted(found.values(), key=_size, reverse=True)


def _is_number(fact: Fact) -> bool:
    return fact.status is Status.OK and isinstance(fact.value, (int, float)) and not isinstance(fact.value, bool) and not fact.stale


def _after(fact: Fact, since: datetime | None) -> bool:
    return since is None or (fact.time is not None and fact.time >= since)


def _size(fact: Fact) -> float:
    return abs(fact.value) if isinstance(fact.value, (int, float)) else 0.0
