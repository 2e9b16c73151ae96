"""The details view shows all evidence of a diagnosis as printed, within Slack's limits, and counts what does not fit."""

from datetime import UTC, datetime

import pytest

from bot.incidents.cards import details
from deploy.sandbox.slack.workspace.blockkit import find_view_problems
from graph.incident_view import IncidentView
from graph.report import PlannedAction, Report
from graph.state import Evidence, Hypothesis, IncidentCosts, IncidentState, LogDigest, LogTemplate, UnobservedCheck
from tests.bot.incidents.cards.test_incident_cards import shown
from tools.fact import Fact

NOW = datetime(2026, 5, 20, 3, 10, tzinfo=UTC)
TITLES = {"GPU.BUS.Fell_Off": "GPU fell off the bus", "GPU.THERMAL.Slowdown": "GPU too hot", "GPU.MEMORY.ECC": "Memory error"}
XID = Evidence(host="gpu-017", check="dmesg", line="NVRM: Xid (PCI:0000:9b:00): 79", says="Xid 79", time=NOW, sha256="ab" * 32)
FELL = Hypothesis(
    label="GPU.BUS.Fell_Off", hosts=("gpu-017",), devices=("gpu-017/gpu5",), confidence=0.98, because="rev ff", evidence=(XID,)
)
ACTION = PlannedAction(label=FELL.label, rung=0, remedy="drain_node", target="gpu-017", via="slurm", risk="disruptive", digest="cd" * 32)
REPORT = Report(
    item="x",
    outcome="diagnosed",
    headline="GPU fell off the bus (gpu-017/gpu5)",
    root_causes=(FELL,),
    ruled_out=(Hypothesis(label="GPU.THERMAL.Slowdown", because="41 °C"),),
    could_not_look=(UnobservedCheck(host="gpu-018", check="ibstat", why="permission denied"),),
    without_model="no key",
    by_hand=("Memory error on gpu-018: have it replaced",),
    actions=(ACTION,),
    logs=(LogDigest(name="train.log", lines=100, templates=(LogTemplate(text="rank <n> is stuck", count=3),)),),
)
STATE: IncidentState = {
    "id": "inc-1",
    "report": REPORT.model_dump(mode="json"),
    "hypotheses": [Hypothesis(label="GPU.MEMORY.ECC", verdict="inconclusive", because="nobody could look").model_dump(mode="json")],
    "walk": {"log": [["GPU.BUS.Fell_Off", "confirmed", "rev ff"], ["USER", "pruned", ""]]},
    "stats": IncidentCosts(hosts=4, checks=88, makespan_seconds=9, check_seconds=120, model_calls=2, usd=0.01).model_dump(),
    "facts": "ef" * 32,
}


def words(state: IncidentState, **more: str) -> str:
    view = details.render_details(IncidentView(state), TITLES, more.pop("boots", None) or {"gpu-017": "8d3a1c52"}, more.pop("shown", "x"))  # type: ignore[arg-type]  # one of them is a mapping
    assert not find_view_problems(view)
    return shown(tuple(view["blocks"]))


@pytest.mark.parametrize(
    "said",
    [
        "*GPU fell off the bus* `GPU.BUS.Fell_Off`\n*gpu-017/gpu5* · 98 % sure\nrev ff",
        "gpu-017 · dmesg\n  03:10:00Z  NVRM: Xid (PCI:0000:9b:00): 79",
        "*Ruled out*\n• GPU too hot: 41 °C",
        "*Not decided*\n• Memory error: nobody could look",
        "*gpu-018* ibstat: permission denied",
        "rank &lt;n&gt; is stuck",
        "*By hand*\n• Memory error on gpu-018",
        "88 checks on 4 hosts in 9 s, 120 s of checks together",
        "2 model calls",
        "Without a model: no key",
        "GPU fell off the bus: confirmed (rev ff)\nUSER: pruned",
        "*Drain gpu-017* on gpu-017 (disruptive)",
        "boot of gpu-017: `8d3a1c52`",
    ],
)
def test_everything_that_is_known_is_there(said: str) -> None:
    assert said in words(STATE)


def test_under_an_older_card_it_says_that_the_incident_went_on() -> None:
    assert details.INCIDENT_WENT_ON_TEXT in words(STATE, shown="an earlier item")
    assert details.INCIDENT_WENT_ON_TEXT not in words(STATE)


def test_of_an_incident_without_a_report_it_says_that_there_is_nothing_yet() -> None:
    with pytest.raises(details.NoReportYet, match=str(details.NoReportYet())):
        details.render_details(IncidentView({"id": "inc-1"}), TITLES, {}, "x")


def test_what_does_not_fit_is_counted() -> None:
    many = tuple(XID.model_copy(update={"line": f"line {n} " + "x" * 150}) for n in range(200))
    causes = tuple(FELL.model_copy(update={"evidence": many, "devices": (f"gpu-017/gpu{n}",)}) for n in range(9))
    rivals = tuple(Hypothesis(label=f"GPU.X.Leaf_{n}", because="y" * 120) for n in range(90))
    whole = words({**STATE, "report": REPORT.model_copy(update={"root_causes": causes, "ruled_out": rivals}).model_dump(mode="json")})
    assert "… 3 more causes" in whole
    assert whole.count("more lines") >= 7
    assert "boot of gpu-017" in whole, "what comes last is not pushed out"


def test_the_boot_of_a_host_is_the_one_that_it_told_last() -> None:
    told = [Fact("env", "host.boot_id", boot, host="n1") for boot in ("old", "new")]
    assert details.find_boot_ids([*told, Fact("env", "gpu.count", 8, host="n1"), Fact("env", "host.boot_id", None, host="n2")]) == {
        "n1": "new"
    }
