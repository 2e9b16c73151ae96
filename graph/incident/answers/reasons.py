"""Why a cause is believed, and why another is not: the engine's verdicts with the lines behind them. Pure."""

from collections.abc import Sequence

from graph.engine.belief import Match
from graph.engine.verdict import Standing
from graph.incident.answers.known import Asked, branch_of, offer, quoted, say, source, sure, unknown_said, where
from graph.incident.concluded import Concluded
from graph.state import Hypothesis
from tools.inventory.ranges import fold

MOST_QUOTED = 3


async def explain(asked: Asked) -> Concluded:
    """The lines behind what was found, or behind the cause that the question names."""
    wanted = _labels(asked)
    if wanted:
        rows = [asked.now.hypothesis(label) for label in wanted if label in asked.now.standings]
        proven = [row for row in rows if row.verdict == "confirmed"]
        return _explained(asked, proven) if proven else await why_not(asked)
    roots = _on(asked, asked.roots)
    if roots:
        return _explained(asked, roots)
    unsure = [f"• {line[:160]}" for line in asked.now.why_unsure[:4]]
    if unsure:
        return say(asked, ["No cause is proven, because:", *unsure, "Tell me anything new, or say `recheck`."])
    hosts = fold(asked.now.hosts)
    if not hosts:
        return say(asked, ["I have looked at no machine yet, so there is nothing to explain."])
    return say(asked, [f"I found nothing abnormal on {hosts}, so there is no cause to explain.", offer(asked, asked.now.hosts)])


def _on(asked: Asked, roots: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Those on the hosts that the question names, if it names any."""
    hosts = set(asked.said.hosts)
    return [row for row in roots if not hosts or hosts & {*row.hosts, *(line.host for line in row.evidence)}]


def _explained(asked: Asked, rows: Sequence[Hypothesis]) -> Concluded:
    lines = unknown_said(asked)
    for row in rows[:2]:
        lines.append(f"{asked.title(row.label)} ({where(row)}), {sure(row)}: {row.because}.")
        lines += [quoted(asked, line) for line in row.evidence[:MOST_QUOTED]]
    lines += [f"… and {len(rows) - 2} more causes; ask “why” with a name."] if len(rows) > 2 else []
    out = [asked.title(row.label) for row in asked.now.ruled_out(2)]
    lines += [f"Ruled out: {', '.join(out)}."] if out and len(rows) == 1 else []
    return say(asked, [*lines, offer(asked, asked.guilty)])


async def why_not(asked: Asked) -> Concluded:
    """What speaks against a cause, a category, or a part of the machine; or that it is not ruled out; or that nobody looked."""
    labels, name = _labels(asked), _named(asked)
    if not labels:
        return say(asked, ["Which cause do you mean? For example “why not the network?” or “why not ECC?”."])
    standing = [asked.now.standings[label] for label in labels if label in asked.now.standings]
    confirmed = [row for row in standing if row.verdict == "confirmed"]
    if confirmed:
        found = [asked.now.hypothesis(row.label) for row in confirmed]
        return say(asked, [f"It is {name}:", *(f"{asked.title(row.label)} ({where(row)}), {sure(row)}." for row in found[:3])])
    if not asked.now.hosts:
        return say(asked, [f"{name}: nothing was looked at that could tell. Name hosts, or say `recheck HOSTS`."])
    return say(asked, [_verdict(asked, standing, name), *_against(asked, standing), *_doubts(standing), offer(asked, asked.now.hosts)])


def _verdict(asked: Asked, rows: Sequence[Standing], name: str) -> str:
    out = [row for row in rows if row.verdict == "rejected"]
    if len(out) == len(rows):
        return f"{name}: ruled out."
    if not out and not any(row.best.support or row.best.against for row in rows):
        return f"{name}: not ruled out; nothing was looked at that could tell."
    some = f" ({len(out)} of its {len(rows)} causes {'are' if len(out) != 1 else 'is'})" if out else ""
    return f"{name}: not ruled out{some}."


def _against(asked: Asked, rows: Sequence[Standing]) -> list[str]:
    """The lines that say no, else which checks looked and saw nothing."""
    matches: dict[str, Match] = {}
    for row in rows:
        for match in row.best.against:
            matches.setdefault(match.says, match)
    lines = [f"• {match.says} ({source(asked, match.fact.host, match.fact.check)})" for match in list(matches.values())[:MOST_QUOTED]]
    if lines:
        return lines
    said = dict.fromkeys(row.because for row in rows if row.verdict == "rejected")
    return [f"• {because}" for because in list(said)[:2]]


def _doubts(rows: Sequence[Standing]) -> list[str]:
    """Why it is not out, where it is not."""
    doubtful = [row for row in rows if row.verdict != "rejected"]
    return [f"• {row.best.leaf.title}: {row.because}" for row in doubtful[:2]]


def _labels(asked: Asked) -> list[str]:
    """Those that the message names: a cause's, else a category's."""
    named = [label for label in asked.said.labels if label in asked.now.standings]
    if named or not asked.said.category:
        return named
    return [label for label in asked.now.standings if label.startswith(f"{asked.said.category}.")]


def _named(asked: Asked) -> str:
    """What was asked about, in words."""
    said = asked.said
    if not said.labels:
        return asked.title(said.category)
    branch = branch_of(said.labels)
    if len(said.labels) > 1 and branch:
        return asked.title(branch)
    titles = [asked.title(label) for label in said.labels[:2]]
    return " / ".join(titles) + (f" and {len(said.labels) - 2} more" if len(said.labels) > 2 else "")
