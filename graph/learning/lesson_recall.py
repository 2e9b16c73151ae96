"""Lessons of this site that an incident sounds like: remembered through its turns, told with what is found. They order where one looks and
prove nothing. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from graph.context import SimilarIncident
from graph.report import MatchedLesson, Report

MIN_LIKENESS, MIN_SAME_CAUSE_LIKENESS = 0.2, 0.05
"""How much alike a lesson must be to be told by itself; one of the very cause that was found less so."""
MAX_REMEMBERED, MAX_SHOWN = 6, 2


def merge_recalled_lessons(before: Sequence[Mapping[str, Any]], similar: Sequence[SimilarIncident]) -> tuple[Mapping[str, Any], ...]:
    """Those of before and the ones that are alike by now, each once; the newest few."""
    now = [
        MatchedLesson(
            lesson=one.lesson, label=one.label, incident=one.learnt, on=one.on, title=one.title[:120], score=round(one.score, 3)
        ).model_dump(mode="json")
        for one in similar
        if one.lesson and one.score >= MIN_SAME_CAUSE_LIKENESS
    ]
    rows = {str(row["lesson"]): row for row in (*before, *now)}
    return tuple(rows.values())[-MAX_REMEMBERED:]


def add_recalled_lessons(report: Report, rows: Sequence[Mapping[str, Any]]) -> Report:
    """The report with the lessons of a cause that it found; where it found none, with those that the incident sounds like."""
    known = [MatchedLesson.model_validate(row) for row in rows]
    labels = {cause.label for cause in report.root_causes}
    alike = [row for row in known if row.score >= MIN_LIKENESS] if report.outcome == "abstained" else []
    told = [row for row in known if row.label in labels] if labels else alike
    return report.model_copy(update={"recalled": tuple(told[-MAX_SHOWN:])}) if told else report
