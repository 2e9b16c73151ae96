"""The timeline joins turn marks with messages, host logs and ledger events."""

from datetime import UTC, datetime, timedelta
from typing import Any, get_args

from graph.incident_view import IncidentView
from graph.report import Report
from graph.state import Evidence, Hypothesis, InboxItem, IncidentState, Lifecycle, Milestone, MilestoneKind, Origin
from graph.timeline import LANES_BY_KIND, MAX_MILESTONES, Timeline, TimelineEvent, append_milestones, build_timeline, summarize_timeline
from tests.graph.test_flow import LOST_ON_N2, Desk, world
from tests.support.fakes_graph import item
from tests.support.fakes_ledger import action
from tools.ledger.record import ActionRecord, ApprovalTerms, Vote
from tools.ledger.states import State

T0 = datetime(2026, 5, 20, 3, 10, tzinfo=UTC)
FOUND = Report(item="1", outcome="diagnosed", headline="Lost (n2/gpu3)")


def after(minutes: float) -> datetime:
    return T0 + timedelta(minutes=minutes)


def before(**more: Any) -> IncidentView:
    said = InboxItem(id="1", kind=more.pop("kind", "mention"), incident="i1", at=T0, user="U1", data=more.pop("data", {}))
    return IncidentView(IncidentState(item=said.model_dump(mode="json"), **more))  # type: ignore[typeddict-item]  # tests name channels


def kinds(rows: IncidentView, report: Report = FOUND, lifecycle: Lifecycle = "open", *, looked: bool = True) -> list[str]:
    return [row.kind for row in append_milestones(rows, report, lifecycle, looked, after(2))]


def test_a_diagnosis_is_marked_once_and_again_when_it_is_another_one() -> None:
    (first,) = append_milestones(before(), FOUND, "open", True, after(2))
    assert (first.kind, first.says, first.at) == ("found", "Lost (n2/gpu3)", after(2))
    known = before(milestones=[first.to_row()])
    assert kinds(known) == ["found"]
    assert kinds(known, FOUND.model_copy(update={"outcome": "no_fault", "headline": "No fault found"})) == ["found", "well"]
    assert kinds(before(), looked=False) == []


def test_what_ran_and_what_its_proof_said_are_marked() -> None:
    data = {"event": "done", "remedy": "gpu_reset", "outcome": "passes_now", "since": after(5).isoformat(), "ran": True}
    rows = append_milestones(before(kind="action_result", data=data), FOUND, "watching", False, after(9))
    assert [(row.kind, row.at, row.says) for row in rows] == [
        ("ran", after(5), "gpu reset began"),
        ("proved", T0, "gpu reset: passes now"),
    ]
    assert kinds(before(kind="action_result", data=data | {"outcome": "worse", "since": ""}), looked=False) == ["failed"]
    assert kinds(before(kind="action_result", data={"event": "denied"}), looked=False) == []
    assert kinds(before(kind="action_result", data={"event": "done", "ran": False, "since": "?"}), looked=False) == []
    assert kinds(before(kind="action_result", data={"event": "recurred"}), looked=False) == ["failed"]


def test_hand_over_and_closing_are_marked_when_they_happen() -> None:
    assert kinds(before(kind="hand_off"), lifecycle="handed_off", looked=False) == ["handed over"]
    assert kinds(before(kind="close", lifecycle="open"), lifecycle="closed", looked=False) == ["closed"]
    assert kinds(before(kind="ask", lifecycle="closed"), lifecycle="closed", looked=False) == []


def test_the_first_and_the_newest_marks_are_kept() -> None:
    many = [Milestone(at=after(n), kind="ran", says=f"{n}").to_row() for n in range(MAX_MILESTONES)]
    rows = append_milestones(before(milestones=many), FOUND, "open", True, after(99))
    assert (len(rows), rows[0].says, rows[1].says, rows[-1].kind) == (MAX_MILESTONES, "0", "2", "found")


async def test_a_real_turn_marks_what_it_found() -> None:
    desk = Desk(world(LOST_ON_N2))
    await desk.turn(item("@rackmedic job 4711 hangs on n2, a GPU has fallen off"))
    line = build_timeline(IncidentView(await desk.state()))
    assert [row.kind for row in line.events if row.kind != "said"][-1] == "found"
    assert line.events[-1].says == "Lost (n2/gpu3)"


def test_everything_is_in_one_line_oldest_first() -> None:
    cause = Hypothesis(
        label="GPU.BUS.Lost",
        verdict="confirmed",
        evidence=(Evidence(host="n2", check="dmesg", line="NVRM: Xid 79", time=after(-7)), Evidence(host="n2", check="smi", line="lost")),
    )
    stored = before(
        opened_at=T0.isoformat(),
        origin=Origin(kind="slack", user="U1").model_dump(mode="json"),
        said=[{"user": "U2", "text": "any news?\u202e", "at": after(1).isoformat()}, {"user": "U2", "at": "yesterday"}],
        report=FOUND.model_copy(update={"root_causes": (cause,)}).model_dump(mode="json"),
        milestones=[Milestone(at=after(2), kind="found", says="Lost (n2/gpu3)").to_row()],
    )
    asked = action()
    vote = Vote(asked.approval, asked.digest, "T1:U9", "approve", after(4).isoformat(), "d1")
    record = ActionRecord(asked, ApprovalTerms(frozenset({"T1:U9"}), 1), State.APPROVED, (vote,), after(3), after(18))
    line = build_timeline(stored, [record])
    assert [(row.at, row.kind) for row in line.events] == [
        (after(-7), "logged"),
        (T0, "asked"),
        (after(1), "said"),
        (after(2), "found"),
        (after(3), "proposed"),
        (after(4), "approved"),
    ]
    assert line.user_ids == ("U1", "U2", "U9")
    named = line.replace_user_ids({"U9": "Priya"})
    assert named.to_table()[-1][:3] == ("2026-05-20 03:14:00", "approved", "Priya")
    assert "‹U+202E›" in named.events[2].says
    assert summarize_timeline(line) == (
        "6 events from 2026-05-20 03:03 to 2026-05-20 03:14 UTC: asked 03:10, found 03:12, proposed 03:13, approved 03:14"
    )


def test_an_incident_of_before_and_an_empty_one_have_a_line_too() -> None:
    assert build_timeline(IncidentView(IncidentState())) == Timeline(())
    assert summarize_timeline(Timeline(())) == ""
    (opened,) = build_timeline(IncidentView(IncidentState(opened_at=T0.isoformat()))).events
    assert opened == TimelineEvent(T0, "asked", "incident opened")


def test_the_words_of_a_line_fold_what_is_alike_and_say_days_where_there_are_several() -> None:
    many = (TimelineEvent(T0, "asked", "o"), *(TimelineEvent(after(n / 60), "proposed", f"n{n}") for n in range(128)))
    assert summarize_timeline(Timeline(many)).endswith("UTC: asked 03:10, proposed 03:10 (128 times)")
    late = TimelineEvent(after(60 * 24 * 400), "closed", "by Ann")
    assert summarize_timeline(Timeline((many[0], late))).endswith("UTC: asked 2026-05-20 03:10, closed 2027-06-24 03:10")
    logged = TimelineEvent(T0, "logged", "Xid")
    assert summarize_timeline(Timeline((logged,))) == "1 event at 2026-05-20 03:10 UTC: lines that hosts logged and words of people"


def test_of_many_lines_the_oldest_and_the_newest_are_kept_and_the_rest_is_counted() -> None:
    shows = tuple(Evidence(host="n2", check="dmesg", line=f"NVRM: Xid 79 {n}", time=after(n)) for n in range(100))
    cause = Hypothesis(label="GPU.BUS.Lost", verdict="confirmed", evidence=shows)
    said = [{"user": "U2", "text": f"word {n}", "at": after(n).isoformat()} for n in range(50)]
    line = build_timeline(before(said=said, report=FOUND.model_copy(update={"root_causes": (cause,)}).model_dump(mode="json")))
    kept = [row.says for row in line.events if row.kind == "logged"]
    assert (kept[0], kept[-1], len(kept), line.left_out) == ("NVRM: Xid 79 0", "NVRM: Xid 79 99", 40, 70)
    assert line.to_table()[-1][3] == "and 70 more that were logged or said"
    assert line.replace_user_ids({}).left_out == 70
    assert summarize_timeline(line).startswith("150 events from ")


def test_every_kind_has_a_lane() -> None:
    assert set(get_args(MilestoneKind)) < LANES_BY_KIND.keys()
