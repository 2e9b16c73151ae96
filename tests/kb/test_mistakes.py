"""Notes on repeated wrong diagnoses: built from accepted lessons, kept while useful, and only able to order checks."""

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from graph.state import Origin
from kb.history.lessons import Lesson
from kb.history.mistakes import NOTE_WEIGHT, MistakeNotes, compute_note_weights, find_mistakes
from kb.taxonomy.loader import load_taxonomy
from tests.support.talk import Talk, case_of

IB, OOM = "INTERCONNECT.IB.Port_Down", "SYSTEM_SOFTWARE.MEMORY.Host_OOM_Kill"
TAXONOMY = load_taxonomy()
HERE = Origin(kind="slack", team="T1", channel="C0OPS", thread_ts="2.0", user="U0ADA")


def lesson(number: int, label: str = OOM, misled: tuple[str, ...] = (IB,), **more: Any) -> Lesson:
    given = {"state": "accepted", "deciding_check": "dmesg", **more}
    return Lesson(id=f"les-{number}", title="job hangs", label=label, misled=misled, incident=f"inc-{number}", on=date(2026, 5, 3), **given)


def test_a_mistake_that_was_made_twice_is_a_note_and_one_is_an_accident() -> None:
    assert not find_mistakes([lesson(1)])
    [note] = find_mistakes([lesson(1), lesson(2), lesson(3, deciding_check="oom")])
    assert (note.blamed, note.was, note.look, note.saved, note.detours, note.is_useful) == (IB, OOM, "dmesg", 3, 0, True)
    assert note.format_sentence(TAXONOMY.titles).startswith("Before blaming “InfiniBand port down”: 3 times it was “")


def test_a_lesson_counts_as_often_as_it_was_seen() -> None:
    assert [note.saved for note in find_mistakes([lesson(1, seen=2)])] == [2]


@pytest.mark.parametrize("state", ["draft", "refused", "retired", "folded"])
def test_drafts_and_retired_lessons_make_no_note(state: str) -> None:
    assert not find_mistakes([lesson(1), lesson(2, state=state)])


def test_a_note_is_dropped_once_it_would_cost_more_looks_than_it_saves() -> None:
    true = [lesson(number, IB, ()) for number in range(10, 12)]
    [note] = find_mistakes([lesson(1), lesson(2), *true])
    assert (note.saved, note.detours, note.is_useful) == (2, 2, False)
    assert not compute_note_weights({IB: 1.0}, [note], TAXONOMY.leaves)


def test_it_counts_where_what_it_warns_of_leads_and_names_a_cause_that_there_is() -> None:
    notes = find_mistakes([lesson(1), lesson(2)])
    assert compute_note_weights({IB: 1.0, "A.B.C": 0.2}, notes, TAXONOMY.leaves) == {OOM: NOTE_WEIGHT}
    assert not compute_note_weights({"A.B.C": 4.0, "A.B.D": 3.0, "A.B.E": 2.0, IB: 1.0}, notes, TAXONOMY.leaves)
    assert not compute_note_weights({IB: 1.0}, notes, {IB})
    assert not compute_note_weights({}, notes, TAXONOMY.leaves)


def test_a_note_of_one_customer_serves_them_and_our_own_people() -> None:
    book = MistakeNotes()
    book.set_lessons([lesson(1, tenant="acme"), lesson(2, tenant="acme"), lesson(3, inside=True), lesson(4, inside=True)])
    assert [note.saved for note in book.list_notes(None)] == [4]
    assert [note.saved for note in book.list_notes("acme")] == [2]
    assert book.list_notes("globex") == ()
    book.set_lessons([lesson(1, tenant="acme"), lesson(2, tenant="globex")])
    assert [len(book.list_notes(reader)) for reader in (None, "acme", "globex")] == [1, 0, 0], (
        "what two customers taught is theirs together with nobody"
    )


async def test_a_note_that_lies_finds_and_clears_nothing() -> None:
    fault = {"id": "G07", "node": "gpu-003", "gpu": 5}
    dead = "GPU.BUS.Fallen_Off_Bus"
    lies = MistakeNotes()
    lies.set_lessons([lesson(number, OOM, (dead,)) for number in range(5)])
    reports = []
    for faults in ([fault], []):
        for book in (MistakeNotes(), lies):
            talk = Talk.over(stage_of(*faults), HERE)
            talk.ports = replace(talk.ports, mistakes=book.list_notes)
            reports.append(await talk.reports("a GPU of gpu-003 fell off the bus, Xid 79"))
    found = [[(one.label, one.hosts) for one in report.root_causes] for report in reports]
    assert found[0] == found[1] != []
    assert found[2] == found[3] == []


def stage_of(*faults: dict[str, Any]) -> Any:
    from deploy.sandbox.cluster.access.case_run import build_case_run

    return build_case_run(case_of(*faults, nodes=("gpu-003", "gpu-004")))
