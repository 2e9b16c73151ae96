"""What the incident knows that is nearest to a message in no known words: facts, causes, fixes and the site's notes, by BM25.

Nothing is concluded from it: each line is shown with its source, as the other answers show it.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from graph.incident.answers.answer_context import (
    AnswerContext,
    clean_text,
    format_location,
    get_check_name,
    render_basis,
    render_citation,
    render_counter_evidence,
    render_source,
)
from graph.incident.visibility import list_visible_hosts
from graph.ownership import build_tenant_machines, is_withheld_from_tenant
from graph.remediation.outcomes import describe_remediation
from kb.fact_keys import find_key
from kb.fact_text import fill_slots
from kb.history.bm25 import BM25Corpus
from kb.history.text_search import extract_terms
from tools.fact import Fact, Status

MAX_NEAREST: Final = 2
MAX_FACTS: Final = 600  # searched at most; what is abnormal comes first
MAX_NOTES: Final = 20
MAX_QUERY_CHARS: Final = 400
MAX_BLOCKING_FACTS: Final = 300  # more are searched outside the event loop
MAX_RULED_OUT: Final = 12
# Least share of the query's telling weight that a text must have: “lunch first” is near nothing.
MIN_SHARE: Final = 0.3
MIN_OF_BEST: Final = 0.6  # least score of the second line, of the first one's
UNKNOWN_SHARE: Final = 0.5  # weight of a word that no text has, of that of the rarest word
MIN_TERM_CHARS: Final = 3
_NUMBER = re.compile(r"\d+")
# Words of talk that no finding is found by.
_TALK: Final = frozenset(extract_terms(
    "how what where when whose much many far long first last next still today tomorrow yesterday now then here there yes not no ok okay odd strange weird funny "
    "thing something anything everything somebody think know see look tell say show want need like make get got go come take put good bad right wrong "
    "off one two three few lot bit really very too even ever never back again maybe about before after since new old same other others more most"
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class NearestEntry:
    """What is searched, and the line that is shown."""

    searched: str
    line: str


async def find_nearest_lines(context: AnswerContext) -> list[str]:
    """Return at most `MAX_NEAREST` lines about what the message may mean; none below a least score."""
    if len(context.incident.facts) > MAX_BLOCKING_FACTS:
        return await asyncio.to_thread(_find_nearest, context)
    return _find_nearest(context)


def _find_nearest(context: AnswerContext) -> list[str]:
    query = " ".join(_list_query_terms(context.message.text))
    if not query:
        return []
    entries = list(_iter_entries(context))
    scores = _score_entries([entry.searched for entry in entries], query)
    ranked = sorted(scores, key=lambda at: (-scores[at], at))
    best = scores[ranked[0]] if ranked else 0.0
    lines = dict.fromkeys(entries[at].line for at in ranked if scores[at] >= MIN_OF_BEST * best)
    return list(lines)[:MAX_NEAREST]


def _list_query_terms(text: str) -> list[str]:
    terms = extract_terms(clean_text(text, MAX_QUERY_CHARS))
    return [term for term in dict.fromkeys(terms) if term not in _TALK and (len(term) >= MIN_TERM_CHARS or term.isdigit())]


def _score_entries(texts: Sequence[str], query: str) -> Mapping[int, float]:
    """Return the BM25 score of each text that has enough of the query."""
    corpus = BM25Corpus.build({str(at): text for at, text in enumerate(texts)})
    terms = extract_terms(query)
    unknown = max(corpus.rarity.values(), default=0.0)
    whole = sum(corpus.rarity.get(term, UNKNOWN_SHARE * unknown) for term in terms)
    enough: dict[int, float] = {}
    for name, score in corpus.score_documents(query).items():
        share = sum(corpus.rarity[term] for term in terms if term in corpus.documents[name])
        if share >= MIN_SHARE * whole:
            enough[int(name)] = score
    return enough


def _iter_entries(context: AnswerContext) -> Iterator[NearestEntry]:
    yield from _iter_causes(context)
    yield from _iter_remediations(context)
    yield from _iter_facts(context)
    yield from _iter_notes(context)


def _iter_causes(context: AnswerContext) -> Iterator[NearestEntry]:
    assessment, incident = context.assessment, context.incident
    is_read_by_tenant = incident.audience_tenant is not None
    shown = {cause.label for cause in incident.report.tenant_root_causes} if incident.report else set()
    for cause in context.root_causes:
        if is_read_by_tenant and cause.label not in shown:
            continue
        title = context.get_title(cause.label)
        yield NearestEntry(f"{title} {cause.label} {cause.because}", f"  Cause: {title} ({format_location(cause)}){render_citation(cause)}")
    if is_read_by_tenant:
        return
    for belief in assessment.suspects[:MAX_NEAREST]:
        basis = render_basis([match.fact for match in belief.support])
        yield NearestEntry(f"{belief.leaf.title} {belief.label}", f"  Likely, not proven: {belief.leaf.title} ({basis})")
    for hypothesis in assessment.list_ruled_out(MAX_RULED_OUT):
        title = context.get_title(hypothesis.label)
        reason = render_counter_evidence(context, hypothesis.label)
        yield NearestEntry(f"{title} {hypothesis.label}", f"  Ruled out: {title} ({reason})")


def _iter_remediations(context: AnswerContext) -> Iterator[NearestEntry]:
    """Yield the fixes. A fix may name other machines, so tenants read of it on their own card."""
    if context.incident.audience_tenant is not None:
        return
    for remediation in context.incident.remediations:
        line = clean_text(describe_remediation(remediation, context.get_title(remediation.label)))
        step = remediation.current_step
        yield NearestEntry(f"{line} {step.remedy if step else ''} fix repair remedy approval", f"  Fix: {line}")


def _iter_facts(context: AnswerContext) -> Iterator[NearestEntry]:
    checks = context.assessment.reference.checks
    abnormal = {_identify(fact) for fact in context.assessment.abnormal_facts}
    for fact in _list_searched_facts(context):
        key = find_key(fact.key)
        asked = checks[fact.check].asks if fact.check in checks else ""
        sentence = clean_text(fact.format_sentence() if _identify(fact) in abnormal else _describe_normal(fact))
        searched = f"{sentence} {fact.key.replace('.', ' ')} {key.means if key else ''} {asked} {get_check_name(fact.check)} {fact.host}"
        yield NearestEntry(searched, f"  {render_source(context, fact.host, fact.check)}: {sentence}")


def _describe_normal(fact: Fact) -> str:
    """Return what was read and its value. A fact's own sentence may state a fault that this value denies."""
    key = find_key(fact.key)
    meaning = key.means.partition(";")[0].partition(":")[0] if key else fact.key
    value = fill_slots("{value} {unit}", fact.value, fact.device, fact.unit, fact.attrs).strip()
    return f"{f'{fact.device}: ' if fact.device else ''}{meaning}: {value}"


def _list_searched_facts(context: AnswerContext) -> list[Fact]:
    """Return the facts that the reader may see: all abnormal ones, and of the others one a key and kind of device, of the host that matters most."""
    rank = {host: at for at, host in enumerate(dict.fromkeys((*context.message.hosts, *context.faulty_hosts)))}
    ordered = sorted(context.incident.facts, key=lambda fact: rank.get(fact.host, len(rank)))
    by_key = {(fact.check, fact.key, _NUMBER.sub("", fact.device or "")): fact for fact in reversed(_select_visible(context, ordered))}
    abnormal = _select_visible(context, context.assessment.abnormal_facts)
    facts = {_identify(fact): fact for fact in (*abnormal, *reversed(by_key.values()))}
    return list(facts.values())[:MAX_FACTS]


def _select_visible(context: AnswerContext, facts: Sequence[Fact]) -> list[Fact]:
    incident, visible_hosts = context.incident, set(context.incident.visible)
    shown = [fact for fact in facts if fact.status is Status.OK and fact.key and (not fact.host or fact.host in visible_hosts)]
    if incident.audience_tenant is None or incident.origin is None:
        return shown
    inventory = context.graph_context.inventory
    machines = build_tenant_machines(inventory, list_visible_hosts(inventory, incident.origin))
    return [fact for fact in shown if not is_withheld_from_tenant(fact, machines)]


def _identify(fact: Fact) -> tuple[str, str, str, str, str]:
    return fact.host, fact.check, fact.key, fact.device or "", repr(fact.value)


def _iter_notes(context: AnswerContext) -> Iterator[NearestEntry]:
    """Yield the lines of the site's pages that this incident showed. They are for operators only."""
    if context.incident.audience_tenant is not None or context.incident.report is None:
        return
    for note in context.incident.report.notes[:MAX_NOTES]:
        for line in note.says:
            yield NearestEntry(f"{note.title} {line}", f"  Site note “{clean_text(note.title, 80)}”: {clean_text(line)}")
