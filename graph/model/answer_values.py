"""Convert model answers into values: keep what the prompt contains, drop what the model invented, merge several answers."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import TypeVar

from graph.model.answers import BadAnswer, CritiqueAnswer, ExploreAnswer, IdeaAnswer, ObjectionAnswer, ReadAnswer, sanitize_line
from graph.model.reasoner import Idea, Ideas, Objection, PromptMaterial, ReportExtraction, RequestedCheck
from kb.schema import squash_blanks

MAX_LINE_CHARS = 240
MAX_TITLE_CHARS = 80
MAX_SENTENCE_CHARS = 160
MAX_CAUSES = 3
MAX_IDEAS = 3
MAX_CITES = 4
MAX_QUOTES = 3
MAX_SUGGESTIONS = 2
MAX_QUESTIONS = 3
MAX_LOOKS = 4
MAX_SIGNATURES = 5
MAX_TIMES = 2
NO_OBJECTION = Objection("holds")
T = TypeVar("T")


def build_extraction(answer: ReadAnswer, material: PromptMaterial) -> ReportExtraction:
    """Keep only text found in the material; ids were validated."""
    report, all_read = material.report, "\n".join((material.report, material.handed_in, material.logs, material.findings))
    likely: dict[str, float] = {}
    for cause in sorted(answer.causes, key=lambda likely_cause: -likely_cause.p):
        likely.setdefault(cause.cause, round(cause.p, 3))
    return ReportExtraction(
        symptoms=remove_duplicates(answer.symptoms),
        hosts=remove_duplicates(answer.hosts),
        job=answer.job.strip() if answer.job.strip() in report else "",
        times=keep_verbatim_quotes(answer.times, report)[:MAX_TIMES],
        signatures=keep_verbatim_quotes(answer.signatures, all_read)[:MAX_SIGNATURES],
        category=answer.category,
        causes=tuple(likely.items())[:MAX_CAUSES],
        outside=sanitize_line(answer.outside, MAX_LINE_CHARS),
        checks=tuple(RequestedCheck(look.check, remove_duplicates(look.hosts), look.repeat) for look in answer.looks)[:MAX_LOOKS],
    )


def build_ideas(answer: ExploreAnswer, material: PromptMaterial) -> Ideas:
    """Return ideas that rest on shown material. Raises BadAnswer where neither an idea nor a question is left."""
    ideas = [_build_idea(idea, material) for idea in answer.ideas]
    resting = {idea.title.lower(): idea for idea in reversed(ideas) if idea.title and idea.cause and (idea.cites or idea.quotes)}
    questions = remove_duplicates(
        sanitize_line(question, MAX_LINE_CHARS) for question in answer.questions if question.strip().endswith("?")
    )
    kept_ideas = tuple(idea for idea in ideas if resting.get(idea.title.lower()) is idea)[:MAX_IDEAS]
    if not kept_ideas and not questions:
        raise BadAnswer("it has no idea that rests on what was shown, and asks nothing")
    return Ideas(kept_ideas, questions[:MAX_QUESTIONS])


def _build_idea(answer: IdeaAnswer, material: PromptMaterial) -> Idea:
    cites = remove_duplicates(answer.cites)[:MAX_CITES]
    return Idea(
        title=sanitize_line(answer.title, MAX_TITLE_CHARS).rstrip("."),
        cause=sanitize_line(answer.cause, MAX_LINE_CHARS),
        branch=answer.branch,
        cites=cites,
        quotes=keep_verbatim_quotes(answer.quotes, f"{material.report}\n{material.handed_in}\n{material.logs}", MAX_SENTENCE_CHARS)[
            :MAX_QUOTES
        ],
        confirms=sanitize_line(answer.confirms, MAX_SENTENCE_CHARS),
        refutes=sanitize_line(answer.refutes, MAX_SENTENCE_CHARS),
        hosts=remove_duplicates(answer.hosts),
        looks=remove_duplicates(answer.looks)[:MAX_LOOKS],
        suggestions=remove_duplicates(
            sanitize_line(suggestion, MAX_SENTENCE_CHARS) for suggestion in answer.suggestions if suggestion.strip()
        )[:MAX_SUGGESTIONS],
        standing=answer.standing if cites else "open",
    )


def build_objections(answer: CritiqueAnswer, claims: int) -> tuple[Objection, ...]:
    """Return one objection per claim; one without citations counts as `holds`."""
    first: dict[int, ObjectionAnswer] = {}
    for objection_answer in answer.objections:
        first.setdefault(objection_answer.claim, objection_answer)
    return tuple(_build_objection(first[at]) if at in first else NO_OBJECTION for at in range(claims))


def _build_objection(objection_answer: ObjectionAnswer) -> Objection:
    if objection_answer.verdict == "holds" or not objection_answer.cites:
        return NO_OBJECTION
    return Objection(
        objection_answer.verdict,
        sanitize_line(objection_answer.because, MAX_LINE_CHARS),
        remove_duplicates(objection_answer.cites)[:MAX_CITES],
    )


def merge_extractions(extractions: Sequence[ReportExtraction]) -> ReportExtraction:
    """Merge readings: mean probability per cause, majority for category and `outside`, the rest from the first."""
    if len(extractions) == 1:
        return extractions[0]
    labels = remove_duplicates(label for reading in extractions for label, _ in reading.causes)
    means = {label: round(fmean(dict(reading.causes).get(label, 0.0) for reading in extractions), 3) for label in labels}
    outside = [reading.outside for reading in extractions if reading.outside]
    first = extractions[0]
    return ReportExtraction(
        first.symptoms,
        first.hosts,
        first.job,
        first.times,
        first.signatures,
        Counter(reading.category for reading in extractions).most_common(1)[0][0],
        tuple(sorted(means.items(), key=lambda row: (-row[1], row[0])))[:MAX_CAUSES],
        outside[0] if len(outside) * 2 > len(extractions) else "",
        first.checks,
    )


def merge_objections(objections: Sequence[tuple[Objection, ...]]) -> tuple[Objection, ...]:
    """Return, per claim, the objection of more than half of the answers, else `holds`."""
    return tuple(_select_majority([answer[at] for answer in objections]) for at in range(len(objections[0])))


def _select_majority(objections: Sequence[Objection]) -> Objection:
    verdict, votes = Counter(objection.verdict for objection in objections).most_common(1)[0]
    return next(objection for objection in objections if objection.verdict == verdict) if votes * 2 > len(objections) else NO_OBJECTION


def keep_verbatim_quotes(quotes: Iterable[str], text: str, most: int = MAX_LINE_CHARS) -> tuple[str, ...]:
    """Return quotes found in the text, ignoring whitespace differences, each cut to `most` characters."""
    squashed_text = squash_blanks(text)
    return remove_duplicates(
        kept_quote for quote in quotes if (kept_quote := squash_blanks(quote)[:most].strip()) and kept_quote in squashed_text
    )


def remove_duplicates(values: Iterable[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(values))
