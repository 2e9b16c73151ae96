"""Lessons drafted from closed incidents: from people's words and cures, without host names, and none if the cause is
unknown.
"""

from collections.abc import Iterable

from bot.incidents.cards import diagnosis
from graph.learning.lessons import add_recalled_lessons, draft_lesson, merge_recalled_lessons
from graph.report import Report
from graph.state import ABSTAIN, NO_FAULT, Conjecture, DiagnosisOutcome, Exploration, Hypothesis, IncidentState, Remediation
from kb.history.lessons import Lesson
from tests.support.clock import T0
from tests.support.fakes_graph import Past
from tests.support.lessons import DEAD, ECC, MENDED, closed

LEAVES = {DEAD, ECC}
WHOSE = {"gpu-017": "acme", "gpu-018": "acme", "gpu-019": "beta"}


def nobodys(hosts: Iterable[str]) -> frozenset[str]:
    return frozenset()


def theirs(hosts: Iterable[str]) -> frozenset[str]:
    return frozenset(WHOSE[host] for host in hosts if host in WHOSE)


def draft(state: IncidentState) -> Lesson:
    lesson = draft_lesson(state, T0, LEAVES, nobodys)
    assert lesson is not None
    return lesson


def test_it_says_what_was_seen_what_it_was_what_decided_it_and_what_held() -> None:
    lesson = draft(closed(denied=(ECC,)))
    assert (lesson.id, lesson.incident, lesson.on, lesson.state) == ("les-4f2a", "inc-4f2a", T0.date(), "draft")
    assert (lesson.label, lesson.root_cause) == (DEAD, "the riser was loose, reseated")
    assert (lesson.symptoms, lesson.signatures) == (("hang",), ("Xid 79",))
    assert (lesson.deciding_check, lesson.resolution, lesson.misled) == ("dmesg", "gpu_reset", (ECC,))


def test_what_was_believed_and_was_not_is_what_misled_and_decided_nothing() -> None:
    lesson = draft(closed(label=ECC))
    assert (lesson.label, lesson.misled, lesson.deciding_check) == (ECC, (DEAD,), "")


def test_it_names_no_host_however_they_were_written() -> None:
    lesson = draft(closed(words="GPU-017's riser, as on gpu-017."))
    assert "gpu-01" not in f"{lesson.title}{lesson.description}{lesson.root_cause}".lower()
    assert "job 4711 hangs on a host" in lesson.title


def test_it_keeps_no_secret() -> None:
    lesson = draft(closed(said="hang; token ghp_abcdefghijklmnopqrstuvwxyz0123456789 was set", words="password=hunter2hunter2"))
    assert "ghp_" not in lesson.model_dump_json()
    assert "hunter2" not in lesson.model_dump_json()


def test_it_is_of_the_customer_whose_hosts_they_were_and_of_ours_alone_where_they_were_of_several() -> None:
    own = draft_lesson(closed(), T0, LEAVES, theirs)
    several = draft_lesson(closed(hosts=("gpu-017", "gpu-019")), T0, LEAVES, theirs)
    reported = draft_lesson(closed(tenant="beta", hosts=()), T0, LEAVES, nobodys)
    assert own
    assert several
    assert reported
    assert (own.tenant, own.inside) == ("acme", False)
    assert (several.tenant, several.inside) == ("", True)
    assert (reported.tenant, reported.can_serve_tenant("beta"), reported.can_serve_tenant("acme"), reported.can_serve_tenant("")) == (
        "beta",
        True,
        False,
        False,
    )
    assert several.can_serve_tenant(None)
    assert not any(several.can_serve_tenant(one) for one in ("acme", "beta", ""))


def test_no_lesson_without_a_fault_or_a_known_cause() -> None:
    assert draft_lesson(closed(label=NO_FAULT), T0, LEAVES, nobodys) is None
    assert draft_lesson(closed(label="", words=""), T0, LEAVES, nobodys) is None
    assert draft_lesson({**closed(), "lifecycle": "open"}, T0, LEAVES, nobodys) is None


BENT = Conjecture(title="A bent pin of gpu-017's board", cause="It makes links replay.", branch="INTERCONNECT.NVLINK")


def explored(state: IncidentState, *ideas: Conjecture) -> IncidentState:
    return {**state, "explored": Exploration(rounds=1, ideas=ideas).model_dump(mode="json")}


def test_an_idea_that_a_persons_words_bear_out_is_proposed_as_a_new_cause() -> None:
    lesson = draft(explored(closed(label="", words="a bent pin, links replay"), BENT))
    assert (lesson.label, lesson.new_cause) == ("", "INTERCONNECT.NVLINK.A_Bent_Pin_Of_Gpu")
    assert lesson.new_title == "A bent pin of a host's board"


def test_an_unconfirmed_or_already_labelled_idea_is_not_proposed() -> None:
    assert draft(explored(closed(label="", words="somebody unplugged it"), BENT)).new_cause == ""
    assert draft(explored(closed(words="a bent pin, links replay"), BENT)).new_cause == ""
    known = f"{BENT.branch}.A_Bent_Pin_Of_Gpu"
    lesson = draft_lesson(explored(closed(label="", words="a bent pin, links replay"), BENT), T0, {*LEAVES, known}, nobodys)
    assert lesson is not None
    assert lesson.new_cause == ""


def test_a_cause_that_no_leaf_names_is_left_to_people() -> None:
    assert draft(closed(label=ABSTAIN, words="the cat sat on the switch")).label == ""


def test_a_branch_that_a_person_named_is_the_cause_that_was_found_below_it() -> None:
    lesson = draft(closed(label="GPU.BUS"))
    assert (lesson.label, lesson.misled, lesson.deciding_check) == (DEAD, (), "dmesg")


def test_a_cure_that_was_proved_twice_teaches_without_a_word() -> None:
    cured: Remediation = MENDED.model_copy(update={"outcome": "cured"})
    assert draft(closed(label="", words="", ladder=cured)).label == DEAD


def test_a_story_without_end_makes_a_short_draft() -> None:
    lesson = draft(closed(said="gpu-017 " * 50_000, words="x" * 100_000))
    assert len(lesson.model_dump_json()) < 4000


def test_a_lesson_is_told_with_the_cause_that_it_taught_and_where_nothing_is_found_if_it_is_much_alike() -> None:
    near, far = Past(DEAD, 0.5, "near", "les-1", "inc-1", "2026-05-03"), Past(DEAD, 0.1, "far", "les-2", "inc-2", "2026-05-04")
    seed, nothing = Past(DEAD, 0.9, "seed"), Past(DEAD, 0.01, "no", "les-3", "inc-3", "2026-05-05")
    known = merge_recalled_lessons((), [near, far, seed, nothing])
    assert merge_recalled_lessons(known, [near]) == known

    def told(outcome: DiagnosisOutcome, *labels: str) -> list[str]:
        report = Report(item="i", outcome=outcome, root_causes=tuple(Hypothesis(label=label, verdict="confirmed") for label in labels))
        return [row.incident for row in add_recalled_lessons(report, known).recalled]

    assert told("diagnosed", DEAD) == ["inc-1", "inc-2"]
    assert told("diagnosed", ECC) == []
    assert told("abstained") == ["inc-1"]
    assert told("no_fault") == []
    card = diagnosis.render_diagnosis("inc-9", add_recalled_lessons(Report(item="i", outcome="abstained"), known), titles={DEAD: "Dead"})
    assert "It sounds like inc-1, 3 May" in str(card.blocks)
