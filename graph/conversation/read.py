"""A message → what it asks for, by rules alone. Pure and bounded; what the rules cannot tell is said to be so, with the nearest intents."""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from graph.conversation.cues import Clause, Fit, fits, ideas_of, moods, vocabulary
from graph.conversation.intents import Intent
from graph.conversation.mentions import Reading
from graph.conversation.said import Said, Vocabulary
from graph.conversation.spelling import LONGEST, Sentence, mended, sentences, spell
from graph.reading.reports import understand
from graph.reading.times import window

POLITE = frozenset({Intent.THANKS, Intent.SMALL_TALK})
ENOUGH = 0.5


def read(text: str, names: Vocabulary, now: datetime) -> Said:
    """`text` as people see it, with others as `<@U…>` or `@U…`; the mention of ourselves is taken out already."""
    book = Reading(text, names)
    whole = [_clause(sentence, book, now) for sentence in sentences(text)]
    found = [(fit, clause) for clause in [*whole, *_parts(text, book, now)] for fit in fits(clause)[:3]]
    ranked = sorted(found, key=lambda row: (row[0].intent in POLITE, -row[0].score))
    best, clause = ranked[0] if ranked and ranked[0][0].score >= ENOUGH else (None, None)
    news = _is_news(text, names, now, whole)
    if news and (best is None or best.intent in POLITE):
        return _said(Intent.NEW_FACTS, text, whole, now)
    if best is None or clause is None:
        nearest = tuple(dict.fromkeys(fit.intent for fit, _ in ranked))[:2]
        return _said(Intent.NOT_UNDERSTOOD, text, whole, now).model_copy(
            update={"sure": False, "suggestions": nearest or (Intent.STATUS, Intent.HELP)}
        )
    return _said(best.intent, text, [clause, *whole], now)


def _clause(sentence: Sentence, book: Reading, now: datetime) -> Clause:
    words = tuple(mended(word, vocabulary(), frozenset()) for word in sentence.words)
    asks, requests, denies, depends = moods(words, sentence.asks)
    timed = any(window(sentence.text, now))
    return Clause(words, ideas_of(words), book.read(sentence.text, words), asks, requests, denies, depends, timed)


def _parts(text: str, book: Reading, now: datetime) -> Iterator[Clause]:
    """The parts between commas, for what is asked at the end of a long sentence."""
    for sentence in sentences(text):
        parts = sentence.text.split(", ")[:8]
        for at, part in enumerate(parts if len(parts) > 1 else []):
            words = tuple(spell(part))
            if words:
                yield _clause(Sentence(words, sentence.asks and at == len(parts) - 1, part), book, now)


def _is_news(text: str, names: Vocabulary, now: datetime, clauses: Iterable[Clause]) -> bool:
    told = understand(text[:LONGEST], names.hosts, now, names.domains)
    stated = [clause for clause in clauses if not clause.asks]
    if told.signatures and stated:
        return True
    for clause in stated:
        machine = bool(clause.named.hosts or clause.named.unknown or clause.named.device or clause.named.job)
        if machine and ({"symptom", "bad", "broken", "did"} & set(clause.ideas) or len(clause.words) <= 3):
            return True
        if "did" in clause.ideas and (clause.timed or "driverish" in clause.ideas):
            return True
        if "symptom" in clause.ideas and set(told.symptoms) - {"vague"}:
            return True
        if clause.words[:1] in (("since",), ("started",), ("began",)) and clause.timed:
            return True
    return False


def _said(intent: Intent, text: str, clauses: list[Clause], now: datetime) -> Said:
    named = [clause.named for clause in clauses]
    since, until = window(text[:LONGEST], now)
    first = named[0] if named else None
    labelled = next((row for row in named if row.labels or row.category), first)
    ideas = {idea for clause in clauses for idea in clause.ideas}
    hosts = tuple(dict.fromkeys(host for row in named for host in row.hosts))
    return Said(
        intent=Intent.GROUP_STATE if intent is Intent.HOST_STATE and len(hosts) > 1 else intent,
        text=text,
        hosts=hosts,
        unknown_hosts=tuple(dict.fromkeys(host for row in named for host in row.unknown)),
        group=next((row.group for row in named if row.group), "*" if {"other", "every"} & ideas and not hosts else ""),
        job=next((row.job for row in named if row.job), ""),
        labels=labelled.labels[:8] if labelled else (),
        category=labelled.category if labelled else "",
        check=next((row.check for row in named if row.check), ""),
        remedy=next((row.remedy for row in named if row.remedy), ""),
        device=next((row.device for row in named if row.device), ""),
        person=next((row.person for row in named if row.person), ""),
        at=(until or _later(text, now)) if intent is Intent.PAUSE else since,
        audience="manager" if "manager" in ideas else "ticket" if "ticket" in ideas else "",
        form="picture" if "picture" in ideas else "file" if "file" in ideas else "",
    )


def _later(text: str, now: datetime) -> datetime | None:
    """“For two hours”: as long as that from now."""
    since, _ = window(text, now)
    return now + (now - since) if since and since < now else now + timedelta(hours=1)


__all__ = ["Fit", "read"]
