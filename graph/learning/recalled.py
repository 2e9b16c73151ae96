"""Lessons of this site that an incident sounds like: remembered through its turns, told with what is found. They order where one looks and
prove nothing. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from graph.ports import Likeness
from graph.report import RecalledLesson, Report

ALIKE, SAME = 0.2, 0.05
"""How much alike a lesson must be to be told by itself; one of the very cause that was found less so."""
MOST, TOLD = 6, 2


def recalled(before: Sequence[Mapping[str, Any]], similar: Sequence[Likeness]) -> tuple[Mapping[str, Any], ...]:
    """Those of before and the ones that are alike by now, each once; the newest few."""
    now = [
        RecalledLesson(
            lesson=one.lesson, label=one.label, incident=one.learnt, on=one.on, title=one.title[:120], score=round(one.score, 3)
        ).model_dump(mode="json")
        for one in similar
        if one.lesson and one.score >= SAME
    ]
    rows = {str(row["lesson"]): row for row in (*before, *now)}
    return tuple(rows.values())[-MOST:]


def with_recalled(report: Report, rows: Sequence[Mapping[str, Any]]) -> Report:
    """The report with the lessons of a cause that it found; where it found none, with those that the incident sounds like."""
    known = [RecalledLesson.model_validate(row) for row in rows]
    labels = {cause.label for cause in report.root_causes}
    alike = [row for row in known if row.score >= ALIKE] if report.outcome == "abstained" else []
    told = [row for row in known if row.label in labels] if labels else alike
    return report.model_copy(update={"recalled": tuple(told[-TOLD:])}) if told else report
