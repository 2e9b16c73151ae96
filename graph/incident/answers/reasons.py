"""Why a cause is believed, and why another is not: the engine's verdicts with the lines behind them. Pure."""

from collections.abc import Sequence

from graph.engine.belief import Match
from graph.engine.verdict import Standing
from graph.incident.answers.known import (
    Asked,
    branch_of,
    cited,
    looked_with,
    of_host,
    offer,
    quoted,
    rests_on,
    ruled_out_by,
    say,
    source,
    sure,
    unknown_said,
    where,
)
from graph.incident.concluded import Concluded
from graph.incident.thinking.checked import kept_reasoning
from graph.reasoning.told import beside
from graph.state import Hypothesis
from tools.inventory.ranges import fold

MOST_QUOTED, MOST_BESIDE = 3, 5


async def explain(asked: Asked) -> Concluded:
    """The lines behind what was found, or behind the cause that the question names."""
    wanted = _labels(asked)
    if wanted:
        rows = [asked.now.hypothesis(label) for label in wanted if label in asked.now.standings]
        proven = [row for row in rows if row.verdict == "confirmed"]
        return _explained(asked, proven, await _went_into(asked, proven)) if proven else await why_not(asked)
    roots = _on(asked, asked.roots)
    if roots:
        return _explained(asked, roots, await _went_into(asked, roots))
    unsure = [f"• {line[:160]}" for line in why_unsure(asked)[:4]]
    if unsure:
        return say(asked, ["The cause is not proven, because:", *unsure, "Tell me anything new, or say `recheck`."])
    hosts = fold(asked.now.hosts)
    if not hosts:
        return say(asked, ["I have looked at no machine yet, so there is nothing to explain."])
    looked = looked_with(asked, of_host(asked, asked.now.hosts[0]))
    return say(asked, [f"I found nothing abnormal on {hosts} ({looked}), so there is no cause to explain.", offer(asked, asked.now.hosts)])


def why_unsure(asked: Asked) -> list[str]:
    """Why no cause is proven, with what makes one likely all the same."""
    likely = {f"{row.leaf.title} is likely and unproven": rests_on(match.fact for match in row.support) for row in asked.now.suspects}
    return [f"{line} ({likely[line]})" if line in likely else line for line in asked.now.why_unsure]


def _on(asked: Asked, roots: Sequence[Hypothesis]) -> list[Hypothesis]:
    """Those on the hosts that the question names, if it names any."""
    hosts = set(asked.said.hosts)
    return [row for row in roots if not hosts or hosts & {*row.hosts, *(line.host for line in row.evidence)}]


async def _went_into(asked: Asked, rows: Sequence[Hypothesis]) -> list[str]:
    """What else went into the first cause, from the reasoning that is kept; for our own people alone."""
    graph = await kept_reasoning(asked.case.stored, asked.ports.evidence) if asked.case.reader is None else None
    lines = beside(graph, rows[0].label)[:MOST_BESIDE] if graph and rows else []
    return ["What else went into it:", *(f"  {line}" for line in lines)] if lines else []


def _explained(asked: Asked, rows: Sequence[Hypothesis], more: Sequence[str] = ()) -> Concluded:
    lines = unknown_said(asked)
    for row in rows[:2]:
        lines.append(f"{asked.title(row.label)} ({where(row)}), {sure(row)}: {row.because}.")
        lines += [quoted(asked, line) for line in row.evidence[:MOST_QUOTED]]
    lines += [f"… and {len(rows) - 2} more causes; ask “why” with a name."] if len(rows) > 2 else []
    out = [f"{asked.title(row.label)} ({ruled_out_by(asked, row.label)})" for row in asked.now.ruled_out(2)]
    lines += [f"Ruled out: {', '.join(out)}."] if out and len(rows) == 1 else []
    return say(asked, [*lines, *more, offer(asked, asked.guilty)])


async def why_not(asked: Asked) -> Concluded:
    """What speaks against a cause, a category, or a part of the machine; or that it is not ruled out; or that nobody looked."""
    labels, name = _labels(asked), _named(asked)
    if not labels:
        return say(asked, ["Which cause do you mean? For example “why not the network?” or “why not ECC?”."])
    standing = [asked.now.standings[label] for label in labels if label in asked.now.standings]
    confirmed = [row for row in standing if row.verdict == "confirmed"]
    if confirmed:
        found = [asked.now.hypothesis(row.label) for row in confirmed]
        rows = [f"{asked.title(row.label)} ({where(row)}), {sure(row)}{cited(row)}." for row in found[:3]]
        return say(asked, [f"It is {name}:", *rows])
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
