"""A closed incident becomes the draft of a lesson: what was seen, what it was, what decided it, what mended it, what misled. Pure."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime

from graph.ownership import READS_FILES
from graph.rows import IncidentRows
from graph.state import ABSTAIN, CUSTOMER, NO_FAULT, Conjecture, Evidence, Hypothesis, Incident
from kb.history.lessons import MOST_ROWS, NAME, TITLE, WORDS, Lesson, cut
from kb.history.words import tokens
from tools.inventory.ranges import BadRange, expand

TenantsOf = Callable[[Iterable[str]], frozenset[str]]
"""Of hosts: the customers who have any of them; empty for none."""
TenantOfNode = Callable[[str], str | None]
"""Of a host by the scheduler's name: whose it is, "" for nobody's; None for one that is not known."""
_NAME = re.compile(r"[\w.\-]+(?:\[[\d,\-]{1,200}\])?")
_A_HOST = "a host"
_WORD = re.compile(r"[A-Za-z0-9]+")
BORNE_OUT, MOST_NAME = 0.5, 5
"""Share of a person's words that an idea must hold to be what they found; words of a new label."""


def drafted(
    state: Incident, now: datetime, leaves: Collection[str], tenants_of: TenantsOf, tenant_of_node: TenantOfNode | None = None
) -> Lesson | None:
    """What a closed incident teaches; None while it is open, where nothing was broken, and where nobody and no cure says what it was. `tenant_of_node`:
    given where the site has tenants: then what a file of an unknown owner says is our own people's alone."""
    rows = IncidentRows(state)
    if rows.lifecycle != "closed" or rows.origin is None:
        return None
    label, words = _leaf(rows, turned_out(rows)), _words(rows)
    if label == NO_FAULT or not (label in leaves or words):
        return None
    found = [row for row in (rows.report.root_causes if rows.report else ()) if row.label == label]
    hosts = {*rows.brief.hosts, *(host for row in found for host in row.hosts)}
    whose = {*tenants_of(hosts), *filter(None, (rows.origin.tenant,))}
    said = _without(rows.brief.text, hosts)
    proposed, called = ("", "") if label in leaves else beyond(rows.explored.ideas, words, leaves)
    return Lesson(
        id=f"les-{rows.id.removeprefix('inc-')}",
        title=cut(said.partition("\n")[0] or words or label, TITLE),
        description=cut(said, WORDS),
        symptoms=_names(rows.brief.symptoms),
        signatures=_names(_without(one, hosts) for one in rows.brief.signatures),
        label=label if label in leaves else "",
        new_cause=proposed,
        new_title=cut(_without(called, hosts), TITLE),
        root_cause=cut(_without(words or (found[0].because if found else ""), hosts), WORDS),
        deciding_check=_decided(found),
        resolution=cut(_held(rows), WORDS),
        misled=_names(_misled(rows, label)),
        tenant=next(iter(whose)) if len(whose) == 1 else "",
        inside=len(whose) > 1 or (tenant_of_node is not None and _withheld(rows, found, next(iter(whose), ""), tenant_of_node)),
        incident=rows.id,
        on=now.date(),
    )


def _withheld(rows: IncidentRows, found: Iterable[Hypothesis], whose: str, tenant_of_node: TenantOfNode) -> bool:
    """Return whether something of the cause was read in a file that is not established as this customer's."""
    if rows.report is not None and rows.report.crossing is not None:
        return True
    return any(_foreign(row, whose, tenant_of_node) for cause in found for row in cause.evidence)


def _foreign(row: Evidence, whose: str, tenant_of_node: TenantOfNode) -> bool:
    source = row.source
    if row.host and row.check not in READS_FILES:
        return False
    if source is None or source.by == CUSTOMER:
        return source is None
    try:
        nodes = expand(source.nodes) if source.uid and source.job else []
    except BadRange:
        return True
    return {tenant_of_node(node) for node in nodes} != {whose}


def beyond(ideas: Sequence[Conjecture], words: str, leaves: Collection[str]) -> tuple[str, str]:
    """A new cause, as a model thought of it and a person's words bear it out: the label that is proposed, and its title. Empty where they are not alike, or
    the label is taken."""
    said = frozenset(tokens(words))
    alike = {idea: len(said & frozenset(tokens(f"{idea.title} {idea.cause}"))) / max(len(said), 1) for idea in ideas if idea.branch}
    best = max(alike, key=lambda idea: alike[idea], default=None)
    if best is None or alike[best] < BORNE_OUT:
        return "", ""
    name = "_".join(word[:1].upper() + word[1:] for word in _WORD.findall(best.title)[:MOST_NAME])
    label = f"{best.branch}.{name}"
    return (cut(label, NAME), best.title) if name and label not in leaves else ("", "")


def turned_out(rows: IncidentRows) -> str:
    """The cause by a person's word, else by a cure that was proved twice; empty where neither is there."""
    word = (rows.ticket.true_label if rows.ticket else "") or (rows.correction.label if rows.correction else "")
    cured = [row.label for row in rows.ladders if row.outcome == "cured"]
    return word or (cured[0] if cured else "")


def _leaf(rows: IncidentRows, word: str) -> str:
    """A branch of the taxonomy that a person named is the only cause that was found below it."""
    below = {row.label for row in (rows.report.root_causes if rows.report else ()) if word and row.label.startswith(f"{word}.")}
    return below.pop() if len(below) == 1 else word


def _words(rows: IncidentRows) -> str:
    """What a person said that it was."""
    return (rows.ticket.true_cause if rows.ticket else "") or (rows.correction.words if rows.correction else "")


def _decided(found: Iterable[Hypothesis]) -> str:
    """The look that showed it."""
    looks = (check for row in found for check in (*(line.check for line in row.evidence), *row.checks))
    return next((check[:NAME] for check in looks if check), "")


def _held(rows: IncidentRows) -> str:
    """The remedies after which the proof passed."""
    ran = (
        rung.remedy
        for row in rows.ladders
        if row.proven and row.outcome != "recurred"
        for rung in row.rungs[: row.rung + 1]
        if rung.part == "fix" and rung.plan == row.tried
    )
    return ", ".join(dict.fromkeys(ran))


def _misled(rows: IncidentRows, label: str) -> list[str]:
    """Causes that were reported or denied, and that it was not."""
    reported = [row.label for row in rows.report.root_causes] if rows.report else []
    denied = rows.correction.denied if rows.correction else ()
    return [one for one in (*reported, *denied) if label and one not in (label, NO_FAULT, ABSTAIN) and not one.startswith(f"{label}.")]


def _names(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(cut(one, NAME) for one in texts if one))[:MOST_ROWS]


def _without(text: str, hosts: Collection[str]) -> str:
    """A text without the names of these hosts: it is to fit others, and to name nobody's."""
    lower = tuple(host.lower() for host in hosts)

    def named(found: re.Match[str]) -> str:
        name = found[0].lower().rstrip(".")
        head, bracket, _ = name.partition("[")
        return _A_HOST if name in lower or (bracket and any(host.startswith(head) for host in lower)) else found[0]

    return _NAME.sub(named, text) if lower else text
