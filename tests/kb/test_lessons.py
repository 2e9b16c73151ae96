"""Lessons among past incidents: which tenants they serve, their trust, and limits of lesson files."""

from datetime import timedelta
from typing import Any

import pytest

from kb.history.incidents import PastIncident, load_seeds
from kb.history.index import PastIncidentIndex
from kb.history.lessons import (
    Lesson,
    apply_outcome,
    build_lesson_rows,
    compute_trust,
    count_outcome,
    find_duplicate_lesson,
    parse_lessons,
    restore_lesson,
    retire_if_faded,
)
from tests.support.lessons import DAY, DEAD, ECC, a_lesson

STORY = "the flux capacitor whistles on every third step"


def taught(name: str, **other: Any) -> PastIncident:
    return a_lesson(name, **{"title": STORY, "state": "accepted", **other}).to_past_incident(DAY)


async def served(history: PastIncidentIndex, tenant: str | None) -> list[str]:
    return [one.lesson for one in await history.find_similar(STORY, 5, tenant) if one.lesson]


async def test_a_tenant_sees_its_own_and_unowned_lessons_and_operators_see_all() -> None:
    history = PastIncidentIndex(load_seeds())
    assert await history.replace_lessons(
        [taught("les-a", tenant="acme"), taught("les-b", tenant="beta"), taught("les-i", inside=True), taught("les-n")]
    )
    assert sorted(await served(history, None)) == ["les-a", "les-b", "les-i", "les-n"]
    assert sorted(await served(history, "acme")) == ["les-a", "les-n"]
    assert await served(history, "") == ["les-n"]


async def test_lessons_of_others_crowd_out_none_that_serves() -> None:
    history = PastIncidentIndex()
    await history.replace_lessons(
        [*(taught(f"les-b{n}", tenant="beta") for n in range(40)), taught("les-a", tenant="acme", title=f"{STORY}, slowly")]
    )
    assert [one.lesson for one in await history.find_similar(STORY, 1, "acme")] == ["les-a"]


async def test_what_is_used_no_more_is_found_no_more_and_what_came_with_us_stays() -> None:
    seeds = load_seeds()
    history = PastIncidentIndex(seeds)
    assert await served(history, None) == []
    await history.replace_lessons([taught("les-a"), a_lesson(seeds[0].id, title=STORY).to_past_incident(DAY)])
    assert await served(history, None) == ["les-a"]
    await history.replace_lessons([taught("les-a", root_cause="in new words")])
    assert (await history.find_similar(STORY, 1))[0].incident.root_cause == "in new words"
    await history.replace_lessons([])
    assert (await served(history, None), len(history)) == ([], len(seeds))


async def test_what_is_trusted_less_is_alike_less() -> None:
    history = PastIncidentIndex()
    await history.replace_lessons([taught("les-good"), taught("les-bad", wrong=("i1",))])
    assert [one.lesson for one in await history.find_similar(STORY, 2)] == ["les-good", "les-bad"]


def test_trust_falls_with_errors_and_time_and_rises_with_proofs() -> None:
    fresh, wrong = a_lesson(state="accepted"), count_outcome(a_lesson(state="accepted"), "i1", ECC, DAY)
    assert compute_trust(fresh, DAY) == 1.0
    assert compute_trust(wrong, DAY) < 0.5 < compute_trust(count_outcome(count_outcome(wrong, "i2", DEAD, DAY), "i3", DEAD, DAY), DAY) < 1.0
    assert compute_trust(fresh, DAY + timedelta(days=730)) == 0.5
    assert compute_trust(count_outcome(fresh, "i1", DEAD, DAY + timedelta(days=730)), DAY + timedelta(days=730)) == 1.0


def test_an_incident_counts_once_by_its_last_word() -> None:
    lesson = a_lesson(state="accepted")
    for label in (DEAD, DEAD, ECC):
        lesson = count_outcome(lesson, "i1", label, DAY)
    assert (lesson.right, lesson.wrong) == ((), ("i1",))


def test_what_misleads_twice_is_retired_and_a_draft_never() -> None:
    lesson = a_lesson(state="accepted")
    for incident in ("i1", "i2"):
        assert retire_if_faded(lesson, DAY) == lesson
        lesson = count_outcome(lesson, incident, ECC, DAY)
    assert retire_if_faded(lesson, DAY).state == "retired"
    assert retire_if_faded(lesson.model_copy(update={"state": "draft"}), DAY).state == "draft"
    assert retire_if_faded(a_lesson(state="accepted"), DAY + timedelta(days=1600)).state == "retired"


def test_what_one_place_accepted_is_a_draft_in_another() -> None:
    kept = a_lesson("les-a", state="accepted", by="T:U1", right=("i1",), seen=7, tenant="acme")
    rows = build_lesson_rows([kept, a_lesson("les-d"), a_lesson("les-r", state="retired")])
    found, problems = parse_lessons(rows, {DEAD})
    assert problems == []
    assert found == [a_lesson("les-a", tenant="acme")]


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ({"id": "x"}, "is missing"),
        ({"label": "NO.SUCH.Leaf"}, "unknown label"),
        ({"title": "x" * 500}, "120"),
        ({"on": "yesterday"}, "on"),
        ({"rm": "-rf"}, "unknown field"),
        ({"symptoms": ["x"] * 100}, "symptoms"),
        ({"seen": object()}, "no row"),
    ],
)
def test_a_bad_row_is_named_and_the_rest_is_read(row: dict[str, Any], says: str) -> None:
    [good] = build_lesson_rows([a_lesson(state="accepted")])
    bad = row if row == {"id": "x"} else {**good, "id": "les-bad", **row}
    found, problems = parse_lessons([bad, good, good], {DEAD})
    assert [one.id for one in found] == [a_lesson().id]
    assert (problems[0].startswith("row 1: "), says in problems[0]) == (True, True), problems
    assert "stands twice" in problems[1]


def test_what_a_file_says_is_redacted() -> None:
    [row] = build_lesson_rows([a_lesson(state="accepted")])
    [lesson], _ = parse_lessons([{**row, "root_cause": "token ghp_abcdefghijklmnopqrstuvwxyz0123456789"}], {DEAD})
    assert isinstance(lesson, Lesson)
    assert "ghp_" not in lesson.root_cause


def test_what_an_incident_turned_out_to_be_counts_once_and_too_many_errors_retire() -> None:
    lesson = a_lesson(state="accepted", settled=DAY)
    right = apply_outcome(lesson, "i1", DEAD, DAY, was_shown=True)
    assert apply_outcome(right, "i1", DEAD, DAY, was_shown=True) == right
    assert (right.right, right.wrong) == (("i1",), ())
    for n in range(2):
        right = apply_outcome(right, f"wrong-{n}", ECC, DAY, was_shown=True)
        assert right.state == "accepted"
    for n in range(2, 8):
        right = apply_outcome(right, f"wrong-{n}", ECC, DAY, was_shown=True)
    assert (right.state, right.settled, right.by) == ("retired", DAY, "")
    assert apply_outcome(right, "i9", DEAD, DAY, was_shown=True) == right, "what is retired is counted no more"


def test_what_was_hardly_alike_can_be_borne_out_and_is_not_held_wrong() -> None:
    lesson = a_lesson(state="accepted", settled=DAY)
    assert apply_outcome(lesson, "i1", ECC, DAY, was_shown=False) == lesson
    assert apply_outcome(lesson, "i1", DEAD, DAY, was_shown=False).right == ("i1",)
    assert apply_outcome(a_lesson(), "i1", DEAD, DAY, was_shown=True) == a_lesson(), "a draft is counted by nothing"


def test_a_retired_lesson_that_is_restored_starts_again() -> None:
    gone = a_lesson(state="retired", settled=DAY - timedelta(days=3000), right=("i0",), wrong=("i1", "i2", "i3"))
    back = restore_lesson(gone, "T0:U0PRIYA", DAY)
    assert (back.state, back.by, back.settled, back.right, back.wrong) == ("accepted", "T0:U0PRIYA", DAY, ("i0",), ())
    assert retire_if_faded(back, DAY) == back


def test_what_tells_the_same_of_the_same_cause_for_the_same_people_is_a_twin() -> None:
    old = a_lesson("les-old", state="accepted", title=f"{STORY} and hangs", on=DAY - timedelta(days=9))
    new = a_lesson("les-new", title=STORY)
    others: list[tuple[dict[str, Any], bool]] = [
        ({}, True),
        ({"tenant": "acme"}, False),
        ({"inside": True}, False),
        ({"label": ECC}, False),
        ({"state": "draft"}, False),
        ({"title": "the rack is cold and the link is slow"}, False),
    ]
    for other, same in others:
        assert (find_duplicate_lesson(new, [old.model_copy(update=other), new]) is not None) == same, other
    older = old.model_copy(update={"id": "les-older", "on": DAY - timedelta(days=30)})
    twin = find_duplicate_lesson(new, [old, older])
    assert twin is not None
    assert twin.id == "les-older"
