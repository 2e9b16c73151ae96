"""Guides in a thread: they order the checks, hide none, report each step, and changes are ordinary approval cards."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.app.site_files import build_guide_parts
from bot.cli.diagnosis_document import build_diagnosis_document
from bot.cli.diagnosis_output import render_report
from bot.incidents.cards import details, diagnosis
from graph.dialogue.guessed import NEEDS
from graph.dialogue.intents import Intent
from graph.dialogue.read import parse_message
from graph.dialogue.said import ParsedMessage, Vocabulary
from graph.guide_rendering import render_guide_summary
from graph.incident.guide_context import GuideContext
from graph.incident.incident_graph import run_single_turn
from graph.report import GuideRun, Report
from graph.state import Origin
from kb.guides.guide import Guide, GuideStep, StepCondition
from kb.guides.loader import load_guides
from kb.taxonomy.expressions import Expression
from tests.support.fakes_graph import FakeFleet, World, healthy, item
from tests.support.talk import Talk, case_of
from tools.checks import CHECKS
from tools.fact import Fact, Status, build_unobserved_fact
from tools.inventory.host_ranges import expand_host_range

pytestmark = pytest.mark.slow


GUIDES = load_guides(parts=build_guide_parts(CHECKS))
NOW = datetime(2026, 5, 20, 3, 10, tzinfo=UTC)
NAMES = Vocabulary(hosts=tuple(expand_host_range("gpu-[001-004]")), groups={"train": ("gpu-001", "gpu-002")}, checks=tuple(CHECKS))


@pytest.mark.parametrize(
    ("text", "guide", "hosts"),
    [
        ("run guide gpu_lost", "gpu_lost", ()),
        ("run guide gpu_lost on gpu-[001-002]", "gpu_lost", ("gpu-001", "gpu-002")),
        ("Run the NCCL hang guide", "nccl_hang", ()),
        ("please run the slow job guide on train", "slow_job", ("gpu-001", "gpu-002")),
        ("follow guide node-drained for gpu-003.", "node_drained", ("gpu-003",)),
        ("run guide make_tea", "make_tea", ()),
    ],
)
def test_a_guide_is_called_in_words(text: str, guide: str, hosts: Sequence[str]) -> None:
    said = parse_message(text, NAMES, NOW)
    assert (said.intent, said.guide, said.hosts, said.kind) == (Intent.RUN_GUIDE, guide, hosts, "recheck")


@pytest.mark.parametrize(
    "text", ["run nccl1 on gpu-001", "is there a guide?", "the guide says nothing of this", "guide me through it", "recheck"]
)
def test_what_only_speaks_of_guides_calls_none(text: str) -> None:
    assert parse_message(text, NAMES, NOW).intent is not Intent.RUN_GUIDE


def test_a_model_cannot_start_an_unnamed_guide() -> None:
    assert not NEEDS[Intent.RUN_GUIDE](ParsedMessage(text="do the usual"))


async def thread(*faults: dict[str, object], text: str = "") -> Talk:
    talk = await Talk.about(*faults) if faults else await Talk.of(case_of())
    talk.ports = replace(talk.ports, guides=GUIDES)
    return talk


async def calls(talk: Talk, text: str) -> Report:
    return await talk.means(parse_message(text, NAMES, talk.ports.clock.now()))


def marks(report: Report) -> dict[str, str]:
    assert report.guide
    return {row.id: row.mark for row in report.guide.steps}


def says(report: Report, step: str) -> str:
    assert report.guide
    return next(row.says for row in report.guide.steps if row.id == step)


LOST = {"id": "G07", "node": "gpu-003", "gpu": 5, "t": -420}


async def test_a_called_guide_looks_first_at_what_it_names_and_then_at_everything_like_any_turn() -> None:
    talk = await thread(LOST)
    report = await calls(talk, "run guide gpu_lost on gpu-003")
    looks = list(dict.fromkeys(check for _, check in talk.ran))
    assert set(looks[:3]) == {"smi", "lspci", "dmesg"}, "its first wave"
    assert set(looks[3:6]) == {"docker", "procs", "sched"}, "its second, without the step whose condition is not so"
    assert set(looks) == {check.id for check in CHECKS.values() if not check.exclusive}
    assert {host for host, _ in talk.ran} == {"gpu-003"}
    assert [(row.label, row.hosts) for row in report.root_causes] == [("GPU.BUS.Fallen_Off_Bus", ("gpu-003",))]


async def test_each_step_says_how_it_stands_and_a_change_is_the_card_of_the_proven_cause() -> None:
    talk = await thread(LOST)
    report = await calls(talk, "run guide gpu_lost on gpu-003")
    assert marks(report) == {
        "count": "done",
        "kernel": "done",
        "driver": "skipped",
        "container": "done",
        "users": "done",
        "out_of_service": "waiting",
        "restart": "later",
        "hardware": "people",
    }
    assert says(report, "count").startswith("gpu-003: ")
    assert "gpu5" in says(report, "count")
    assert "gpu.lost with value == true" in says(report, "driver")
    assert says(report, "out_of_service").startswith("gpu-003: ")
    (ladder,) = await talk.put_up()
    assert ladder.current_step
    assert (ladder.current_step.remedy, ladder.label, ladder.fault is not None) == ("drain_node", "GPU.BUS.Fallen_Off_Bus", True)


async def test_without_a_proven_cause_no_change_is_put_up() -> None:
    talk = await thread()
    report = await calls(talk, "run guide gpu_lost on gpu-001")
    assert (marks(report)["out_of_service"], marks(report)["restart"]) == ("people", "people")
    assert "no card" in says(report, "restart")
    assert await talk.put_up() == []


async def test_exclusive_checks_of_a_guide_are_cards_of_its_caller_one_by_one() -> None:
    talk = await thread()
    report = await calls(talk, "run guide slow_job")
    assert (marks(report)["copies"], "bw" in says(report, "copies")) == ("waiting", True)
    assert (marks(report)["collectives"], "nccl2" in says(report, "collectives")) == ("next", True)
    (card,) = await talk.put_up()
    assert card.current_step
    assert (card.current_step.remedy, card.current_step.args, card.asked_by) == ("run_check", {"check": "bw"}, "T1:U1")
    assert not [check for _, check in talk.ran if CHECKS[check].exclusive]


async def test_a_measurement_between_hosts_says_that_one_host_is_too_few() -> None:
    talk = await thread()
    report = await calls(talk, "run guide slow_job on gpu-002")
    assert (marks(report)["collectives"], says(report, "collectives")) == (
        "unsure",
        "nccl2 measures between hosts, so it needs at least two",
    )


async def test_a_wait_does_not_block_and_starting_the_guide_again_continues_it() -> None:
    talk = await thread()
    first = await calls(talk, "run guide slow_job")
    assert (marks(first)["a_minute"], marks(first)["counters_again"]) == ("waiting", "later")
    assert first.guide
    assert first.guide.due is not None
    talk.minutes = 0.5
    early = await calls(talk, "run guide slow_job")
    assert marks(early)["a_minute"] == "waiting"
    assert says(early, "a_minute") == "30 s left"
    late = await calls(talk, "run guide slow_job")
    assert (marks(late)["a_minute"], marks(late)["counters_again"]) == ("done", "done")
    assert talk.ran[0][1] == "ibstat", "only what is left of the guide comes first"


async def test_a_guide_that_there_is_not_looks_at_nothing_and_names_those_that_there_are() -> None:
    talk = await thread(LOST)
    before = (await talk.rows()).remediations
    report = await calls(talk, "run guide make_tea")
    assert "make_tea" in report.reply
    assert "`run guide gpu_lost`" in report.reply
    assert talk.ran == []
    assert (await talk.rows()).remediations == before


async def test_a_guide_named_by_its_subject_is_run() -> None:
    talk = await thread()
    report = await calls(talk, "go through the playbook for nccl hangs on gpu-002")
    assert report.guide
    assert (report.guide.id, report.guide.called) == ("nccl_hang", True)


async def test_a_request_that_names_no_guide_is_asked_which_one() -> None:
    talk = await thread()
    report = await calls(talk, "please go through the troubleshooting guide step by step")
    assert "`run guide nccl_hang`" in report.reply
    assert talk.ran == []


async def test_who_begins_with_a_guide_has_it_run() -> None:
    talk = Talk.over((await thread()).stage)
    talk.ports = replace(talk.ports, guides=GUIDES)
    report = await talk.reports("run guide node_drained on gpu-002")
    assert report.guide
    assert report.guide.called
    assert talk.ran[0] == ("gpu-002", "sched") or talk.ran[0][0] == "gpu-002"
    assert marks(report)["scheduler"] == "done"


async def test_calling_a_guide_by_its_name_reports_no_symptom() -> None:
    talk = await thread()
    before = (await talk.rows()).brief
    await calls(talk, "run the NCCL hang guide")
    assert (await talk.rows()).brief == before


async def test_a_run_that_is_over_is_told_once() -> None:
    talk = await thread()
    report = await calls(talk, "run guide gpu_lost on gpu-001")
    assert report.guide
    assert not report.guide.is_open
    assert (await talk.means(parse_message("recheck", NAMES, talk.ports.clock.now()))).guide is None


async def test_where_nothing_is_proven_the_guide_that_fits_is_held_against_what_was_seen_and_asks_nothing_more() -> None:
    plain, guided = (World(fleet=FakeFleet(healthy("n1", "n2", "n3", "n4"), dark={"n2/dmesg": "no answer within 20 s"})) for _ in range(2))
    text = "job hangs on n2"
    before, state = await told(plain, text), plain.fleet.asked
    after = await told(guided, text, guides={"hang": HANGS})
    assert after.outcome == "abstained"
    assert guided.fleet.asked == state
    assert after.model_copy(update={"guide": None}) == before
    assert after.guide
    assert (after.guide.id, after.guide.called) == ("hang", False)
    assert marks(after) == {"kernel": "done", "bus": "unsure", "pause": "waiting", "call": "later"}
    assert "could not look on n2" in says(after, "kernel")
    assert says(after, "bus").startswith("could not tell ")
    assert "kernel.xid with value == 79" in says(after, "bus")
    assert after.guide.due is None, "nothing runs, so nothing is waited for"


XID79 = StepCondition("kernel.xid", "any", Expression("value == 79"))
HANGS = Guide(
    "hang",
    "A hang",
    (
        GuideStep("kernel", look=("dmesg",)),
        GuideStep("bus", after=("kernel",), when=(XID79,), look=("lspci",)),
        GuideStep("pause", wait=timedelta(seconds=60)),
        GuideStep("call", after=("pause",), ask="Call somebody."),
    ),
    symptoms=("hang",),
)


async def told(world: World, text: str, **more: Any) -> Report:
    _, report = await run_single_turn(replace(world.ports(), **more), item(text), Origin(kind="terminal"))
    return report


async def test_a_proven_cause_is_the_answer_and_no_guide_is_held_against_it() -> None:
    talk = Talk.over((await thread(LOST)).stage)
    talk.ports = replace(talk.ports, guides=GUIDES)
    report = await talk.reports("job 4711 hangs on gpu-[001-004]")
    assert report.outcome == "diagnosed"
    assert report.guide is None


def ground(*facts: Fact, hosts: tuple[str, ...] = ("a", "b")) -> GuideContext:
    from graph.engine.reference_data import ReferenceData
    from kb.taxonomy.loader import load_taxonomy

    return GuideContext(facts, hosts, ReferenceData(load_taxonomy(), CHECKS), NOW)


def test_found_not_found_and_could_not_look_are_three_answers() -> None:
    xid = Fact("dmesg", "kernel.xid", 79, host="a")
    other, silent = Fact("dmesg", "kernel.xid", 43, host="a"), Fact("dmesg", "", status=Status.ABSENT, host="b")
    dark = build_unobserved_fact("dmesg", Status.TIMEOUT, "timed out", "b")
    assert ground(xid, dark).is_condition_met(XID79) is True, "found is found wherever else one could not look"
    assert ground(other, silent).is_condition_met(XID79) is False
    assert ground(other, dark).is_condition_met(XID79) is None
    assert ground().is_condition_met(XID79) is None
    none = replace(XID79, quantifier="none")
    assert [ground(*facts).is_condition_met(none) for facts in ((xid,), (other, silent), (other, dark))] == [False, True, None]
    assert ground(replace(xid, stale=True), silent).is_condition_met(XID79) is False, "what was before the last boot is over"


def test_the_steps_fit_a_card_a_dialog_a_terminal_and_a_script() -> None:
    rows = [{"id": f"s{n}", "mark": "done", "does": f"Step {n} <!channel>", "says": "gpu-001: *bad*"} for n in range(9)]
    run = GuideRun.model_validate({"id": "g", "title": "A guide", "called": True, "steps": rows})
    report = Report(item="i", outcome="no_fault", headline="No fault", guide=run)
    shown = str(diagnosis.render_diagnosis("inc-9", report).blocks)
    assert "A guide" in shown
    assert "4 more steps" in shown
    assert "<!channel>" not in shown
    assert len(render_guide_summary(run, 6)) == 6


async def test_what_is_told_of_a_guide_is_the_same_everywhere() -> None:
    talk = await thread(LOST)
    report = await calls(talk, "run guide gpu_lost on gpu-003")
    rows = await talk.rows()
    card = str(diagnosis.render_diagnosis("inc-1", report).blocks)
    assert report.guide
    told = render_guide_summary(report.guide, 6)
    assert len(told) <= 6
    [waits] = [line for line in told if line.startswith("⏳ ")]
    assert says(report, "out_of_service") in waits
    assert [line for line in told if line.startswith("✗") and line.endswith("driver")]
    assert [line for line in told if line.startswith("·") and line.endswith("restart")]
    assert report.guide.title in card
    assert says(report, "out_of_service") in str(details.render_details(rows, {}, {}, report.item))
    assert build_diagnosis_document(rows.stored, report)["guide"]["steps"][0]["id"] == "count"
    assert render_report(rows.stored, report)


def test_a_guide_that_only_fits_is_one_line_that_says_how_to_go_on() -> None:
    run = GuideRun.model_validate(
        {"id": "nccl_hang", "title": "A hang", "steps": [{"id": "a", "mark": "done"}, {"id": "b", "mark": "next"}]}
    )
    shown = str(diagnosis.render_diagnosis("inc-9", Report(item="i", outcome="abstained", headline="No cause", guide=run)).blocks)
    assert "1 of 2 steps" in shown
    assert "`run guide nccl_hang`" in shown
