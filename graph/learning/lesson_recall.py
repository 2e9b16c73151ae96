"""Lessons of this site that resemble an incident, kept across turns. They order checks and prove nothing."""

from collections.abc import Mapping, Sequence
from typing import Any

from graph.context import SimilarIncident
from graph.report import MatchedLesson, Report

MIN_LIKENESS = 0.2  # Score from which a lesson is shown
MIN_SAME_CAUSE_LIKENESS = 0.05  # lower if it has the cause that was found
MAX_REMEMBERED = 6
MAX_SHOWN = 2


def merge_recalled_lessons(earlier_rows: Sequence[Mapping[str, Any]], similar: Sequence[SimilarIncident]) -> tuple[Mapping[str, Any], ...]:
    """Merge earlier and newly similar lessons, each once; the newest are kept."""
    new_rows = [
        MatchedLesson(
            lesson=incident.lesson,
            label=incident.label,
            incident=incident.learnt,
            on=incident.on,
            title=incident.title[:120],
            score=round(incident.score, 3),
        ).model_dump(mode="json")
        for incident in similar
        if incident.lesson and incident.score >= MIN_SAME_CAUSE_LIKENESS
    ]
    rows_by_lesson = {str(row["lesson"]): row for row in (*earlier_rows, *new_rows)}
    return tuple(rows_by_lesson.values())[-MAX_REMEMBERED:]


def add_recalled_lessons(report: Report, rows: Sequence[Mapping[str, Any]]) -> Report:
    """Return the report with lessons of its causes, or, where it abstained, of similar incidents."""
    lessons = [MatchedLesson.model_validate(row) for row in rows]
    labels = {cause.label for cause in report.root_causes}
    similar_lessons = [lesson for lesson in lessons if lesson.score >= MIN_LIKENESS] if report.outcome == "abstained" else []
    shown_lessons = [lesson for lesson in lessons if lesson.label in labels] if labels else similar_lessons
    return report.model_copy(update={"recalled": tuple(shown_lessons[-MAX_SHOWN:])}) if shown_lessons else report
