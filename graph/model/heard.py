"""Answers into values: what stands in what was shown is kept, what a model made up beside it is dropped, and several answers become one. Pure."""

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import fmean
from typing import TypeVar

from graph.model.reasoner import Idea, Ideas, Material, Objection, Reading
from graph.model.shapes import CritiqueAnswer, ExploreAnswer, IdeaAnswer, ObjectionAnswer, ReadAnswer, Unheard, line_for_people
from kb.shapes import squashed

LINE, TITLE, SENTENCE = 240, 80, 160
MOST_CAUSES, MOST_IDEAS, MOST_CITED, MOST_QUOTED, MOST_SUGGESTED, MOST_ASKED, MOST_LOOKS = 3, 3, 4, 3, 2, 3, 4
MOST_SIGNATURES, MOST_TIMES = 5, 2
HOLDS = Objection("holds")
T = TypeVar("T")


def reading_of(answer: ReadAnswer, material: Material) -> Reading:
    """Ids were checked; of the words only those that stand in what was read are kept."""
    report, all_read = material.report, f"{material.report}\n{material.logs}\n{material.findings}"
    likely: dict[str, float] = {}
    for row in sorted(answer.causes, key=lambda row: -row.p):
        likely.setdefault(row.cause, round(row.p, 3))
    return Reading(
        symptoms=unique(answer.symptoms),
        hosts=unique(answer.hosts),
        job=answer.job.strip() if answer.job.strip() in report else "",
        times=standing_in(answer.times, report)[:MOST_TIMES],
        signatures=standing_in(answer.signatures, all_read)[:MOST_SIGNATURES],
        category=answer.category,
        causes=tuple(likely.items())[:MOST_CAUSES],
        outside=line_for_people(answer.outside, LINE),
    )


def ideas_of(answer: ExploreAnswer, material: Material) -> Ideas:
    """Those that rest on something that was shown. Raises Unheard where nothing is left of ideas and questions."""
    ideas = [_idea(row, material) for row in answer.ideas]
    resting = {idea.title.lower(): idea for idea in reversed(ideas) if idea.title and idea.cause and (idea.cites or idea.quotes)}
    asked = unique(line_for_people(one, LINE) for one in answer.questions if one.strip().endswith("?"))
    kept = tuple(idea for idea in ideas if resting.get(idea.title.lower()) is idea)[:MOST_IDEAS]
    if not kept and not asked:
        raise Unheard("it has no idea that rests on what was shown, and asks nothing")
    return Ideas(kept, asked[:MOST_ASKED])


def _idea(row: IdeaAnswer, material: Material) -> Idea:
    cites = unique(row.cites)[:MOST_CITED]
    return Idea(
        title=line_for_people(row.title, TITLE).rstrip("."),
        cause=line_for_people(row.cause, LINE),
        branch=row.branch,
        cites=cites,
        quotes=standing_in(row.quotes, f"{material.report}\n{material.logs}", SENTENCE)[:MOST_QUOTED],
        confirms=line_for_people(row.confirms, SENTENCE),
        refutes=line_for_people(row.refutes, SENTENCE),
        hosts=unique(row.hosts),
        looks=unique(row.looks)[:MOST_LOOKS],
        suggestions=unique(line_for_people(one, SENTENCE) for one in row.suggestions if one.strip())[:MOST_SUGGESTED],
        standing=row.standing if cites else "open",
    )


def objections_of(answer: CritiqueAnswer, claims: int) -> tuple[Objection, ...]:
    """One for each claim; what cites nothing that was shown counts for nothing."""
    first: dict[int, ObjectionAnswer] = {}
    for row in answer.objections:
        first.setdefault(row.claim, row)
    return tuple(_objection(first[at]) if at in first else HOLDS for at in range(claims))


def _objection(row: ObjectionAnswer) -> Objection:
    if row.verdict == "holds" or not row.cites:
        return HOLDS
    return Objection(row.verdict, line_for_people(row.because, LINE), unique(row.cites)[:MOST_CITED])


def agreed(readings: Sequence[Reading]) -> Reading:
    """Several readings as one: each cause by its mean probability, category and `outside` by most of them, the words of the first."""
    if len(readings) == 1:
        return readings[0]
    labels = unique(label for reading in readings for label, _ in reading.causes)
    means = {label: round(fmean(dict(reading.causes).get(label, 0.0) for reading in readings), 3) for label in labels}
    outside = [reading.outside for reading in readings if reading.outside]
    first = readings[0]
    return Reading(
        first.symptoms,
        first.hosts,
        first.job,
        first.times,
        first.signatures,
        Counter(reading.category for reading in readings).most_common(1)[0][0],
        tuple(sorted(means.items(), key=lambda row: (-row[1], row[0])))[:MOST_CAUSES],
        outside[0] if len(outside) * 2 > len(readings) else "",
    )


def outvoted(answers: Sequence[tuple[Objection, ...]]) -> tuple[Objection, ...]:
    """For each claim the objection that more than half of them made, else that it holds."""
    return tuple(_voted([answer[at] for answer in answers]) for at in range(len(answers[0])))


def _voted(objections: Sequence[Objection]) -> Objection:
    verdict, votes = Counter(one.verdict for one in objections).most_common(1)[0]
    return next(one for one in objections if one.verdict == verdict) if votes * 2 > len(objections) else HOLDS


def standing_in(quotes: Iterable[str], text: str, most: int = LINE) -> tuple[str, ...]:
    """Of these pieces of a text those that do stand there, whatever blanks are between their words; cut to so many characters."""
    said = squashed(text)
    return unique(one for quote in quotes if (one := squashed(quote)[:most].strip()) and one in said)


def unique(values: Iterable[T]) -> tuple[T, ...]:
    """Each once, in the order in which they came."""
    return tuple(dict.fromkeys(values))
