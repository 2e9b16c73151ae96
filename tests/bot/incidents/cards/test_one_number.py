"""Confidence, checks, hosts and seconds agree in headline, card, small print, terminal, JSON, status and ticket."""

import json
import re
from pathlib import Path
from typing import cast

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from rich.console import Console

from bot.cards.blocks import Card
from bot.cli.cluster_access import open_command_runtime, open_stage
from bot.cli.diagnosis_document import build_diagnosis_document
from bot.cli.diagnosis_output import render_report
from bot.incidents.cards import details, diagnosis
from bot.settings import load_settings
from graph.extraction import report_texts
from graph.extraction.uploaded_files import build_attachment
from graph.incident.incident_graph import build_incident_graph, run_turn
from graph.incident_view import IncidentView
from graph.report import Report
from graph.state import InboxItem, InboxItemKind, IncidentCosts, IncidentState
from tools.fact import Fact, Status

pytestmark = pytest.mark.slow


CASES = Path(__file__).parents[3] / "bench" / "cases"


@pytest.mark.parametrize(
    ("stats", "looked", "cost"),
    [
        (IncidentCosts(hosts=4, checks=88, makespan_seconds=12.4), "4 hosts looked at with 88 checks", "88 checks on 4 hosts in 12 s"),
        (IncidentCosts(hosts=1, checks=1, makespan_seconds=0.42), "1 host looked at with 1 check", "1 check on 1 host in 0.4 s"),
        (
            IncidentCosts(hosts=4, silent=1, checks=88, makespan_seconds=60),
            "3 of 4 hosts looked at with 88 checks",
            "88 checks on 3 of 4 hosts in 60 s",
        ),
        (
            IncidentCosts(hosts=4, silent=4, checks=4, makespan_seconds=20),
            "4 hosts asked, none answered",
            "4 checks on 0 of 4 hosts in 20 s",
        ),
        (
            IncidentCosts(hosts=1, silent=1, checks=1, makespan_seconds=20),
            "1 host asked, and it did not answer",
            "1 check on 0 of 1 host in 20 s",
        ),
        (IncidentCosts(), "no host looked at", ""),
    ],
)
def test_only_hosts_that_answered_count_as_looked_at(stats: IncidentCosts, looked: str, cost: str) -> None:
    assert (report_texts.format_coverage(stats), report_texts.format_cost(stats)) == (looked, cost)


def test_a_host_is_silent_as_long_as_every_check_there_could_not_look() -> None:
    facts = [
        Fact("smi", "gpu.count", 8, host="n1"), Fact("dmesg", "", status=Status.TIMEOUT, host="n1"), Fact("mods", "", status=Status.ABSENT, host="n2"),
        Fact("smi", "", status=Status.UNREACHABLE, host="n3"), Fact("dmesg", "", status=Status.DENIED, host="n3"), Fact("joblog", "job.error", "x"),
    ]  # fmt: skip
    assert report_texts.count_unobserved_hosts(facts) == 1


@pytest.mark.parametrize(("p", "said"), [(0.0, "1 %"), (0.004, "1 %"), (0.934, "93 %"), (0.9999, "99 %"), (1.0, "99 %")])
def test_confidence_is_never_shown_as_a_hundred_percent(p: float, said: str) -> None:
    assert report_texts.format_confidence_percent(p) == said


def chosen() -> list[Path]:
    """Return one case of each kind, and one of those that are hard to see."""
    return sorted([*CASES.glob("*-2.yaml"), CASES / "unseen-1.yaml"])


def printed(state: IncidentState, report: Report) -> str:
    console = Console(width=400, no_color=True)
    with console.capture() as captured:
        console.print(render_report(state, report))
    return captured.get()


def said_on(card: Card) -> str:
    return json.dumps(card.blocks, ensure_ascii=False)


def sure_in(text: str) -> set[str]:
    return set(re.findall(r"\d+ ?%(?= sure)", text))


@pytest.mark.parametrize("path", chosen(), ids=lambda path: path.stem)
async def test_every_surface_says_the_same_numbers(path: Path) -> None:
    stage = open_stage(path)
    assert stage
    async with open_command_runtime(load_settings(environ={}), None, stage) as world:
        graph, at = build_incident_graph(InMemorySaver()), world.services.clock.now()
        files = tuple(build_attachment(name, text) for name, text in stage.attachments)
        items = [InboxItem(id="1", kind="mention", incident="inc-1", at=at, text=stage.text, attachments=files)]
        items += [InboxItem(id=kind, kind=kind, incident="inc-1", at=at) for kind in ASKED]
        reports, states = list[Report](), list[IncidentState]()
        for given in items:
            reports.append(await run_turn(graph, world.services.build_graph_context(), given))
            states.append(cast("IncidentState", (await graph.aget_state({"configurable": {"thread_id": "inc-1"}})).values))
    report, state = reports[0], states[0]
    stats = IncidentView(state).stats
    card, terminal, told = (
        said_on(diagnosis.render_diagnosis("inc-1", report, stats)),
        printed(state, report),
        build_diagnosis_document(state, report),
    )
    assert report_texts.format_hosts_and_makespan(stats) in card
    assert report_texts.format_cost(stats) in json.dumps(details.render_details(IncidentView(state), {}, {}, report.item))
    assert report_texts.format_cost(stats) in terminal
    assert IncidentCosts.model_validate(told["stats"]) == stats
    assert "looked at with" not in report.headline or report_texts.format_coverage(stats) in report.headline
    assert report_texts.format_coverage(stats) in reports[1].reply
    wanted = {report_texts.format_confidence_percent(row["confidence"]) for row in told["root_causes"]}
    assert sure_in(card) == sure_in(terminal) == wanted
    assert sure_in(reports[1].reply) <= wanted
    ticket = states[2]["ticket"]["summary"]
    assert all(f"confirmed {said}" in ticket for said in wanted)


ASKED: tuple[InboxItemKind, ...] = ("status", "hand_off")
