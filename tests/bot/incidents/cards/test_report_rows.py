"""Report cards and details: copyable addresses, hardware ids, hosts to exclude, signs, alert links, and no internal
numbers.
"""

import json
from typing import Any, get_args

import pytest

from bot.alerts import cards
from bot.alerts.alert import AlertLabels, RawAlert, count_alerts, parse_alert, parse_link_address
from bot.alerts.threads import render_alert_card
from bot.alerts.webhook_messages import parse_alertmanager_webhook, parse_own_webhook
from bot.cards import text
from bot.incidents.cards import details, diagnosis, incident_card, report_rows
from bot.incidents.cards.incident_status import STATUS_SIGNS, IncidentStatus, get_incident_status
from graph.incident_view import IncidentView
from graph.provenance.reason_graph import ShiftSource
from graph.provenance.tree_rendering import SOURCE_TEXTS
from graph.report import GuideRun, GuideStepRow, PlannedAction, Report
from graph.state import Evidence, Hypothesis, IncidentCosts
from tests.bot.incidents.cards.test_details import FELL, REPORT, STATE, TITLES
from tests.bot.remediation.cards.test_approval_cards import fits, strings
from tools.fact import Fact, Status


@pytest.mark.parametrize(
    "address",
    [
        "0000:9b:00.0",
        "00000000:9B:00.0",
        "PCI:0000:9b:00",
        "0000:c1:00",
        "0a:1b:2c:3d:4e:5f",
        "fe80::a1:b2:c3",
        "10000:e1:00.0",
    ],
)
@pytest.mark.parametrize("make", [str, text.bold, text.italic], ids=["plain", "bold", "italic"])
def test_an_address_keeps_its_colons_and_is_no_emoji(address: str, make: Any) -> None:
    for before, after in (("", ""), ("Reset the GPU at ", ""), ("NVRM: Xid (", "): 79"), ("at ", ", then :tada: it")):
        shown = text.render_line((make(f"{before}{address}{after}"),), 500)
        assert address in shown
        assert not text.EMOJI_PATTERN.search("".join(shown.split("`")[::2])), "outside of code"


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ("at 03:10:00 UTC", "at 03:10:00 UTC"),
        (":white_check_mark: done", "꞉white_check_mark: done"),
        ("x:9b:00:tada:", "x꞉9b:00꞉tada:"),
        ("rank 3: 100: ok", "rank 3: 100: ok"),
    ],
)
def test_what_is_no_address_is_not_code(words: str, shown: str) -> None:
    assert text.render_line((words,), 500) == shown


def test_a_cut_address_is_no_emoji() -> None:
    for room in range(40, 70):
        shown = text.render_line(("x" * 20 + " 0000:9b:00.0 0000:9c:00.0 0000:9d:00.0",), room)
        assert shown.count("`") % 2 == 0
        assert not text.EMOJI_PATTERN.search("".join(shown.split("`")[::2]))


@pytest.mark.parametrize("line", ["<state>ERR!</state>", "  <gpu id='x'>", "Serial <x/>", "<?xml version='1.0'?>"])
def test_markup_is_told_in_words_and_no_digest_stands_in_the_details(line: str) -> None:
    shown = report_rows.format_evidence(
        [Evidence(host="n1", check="smi", key="gpu.lost", line=line, says="nvidia-smi says that gpu5 is lost", sha256="ab" * 32)]
    )
    assert shown == ["n1 · smi", "  nvidia-smi says that gpu5 is lost"]


@pytest.mark.parametrize("line", ["NVRM: Xid (PCI:0000:9b:00): 79", "a < b", "recv <rank 3>", "x" * 200])
def test_any_other_line_stays_as_it_was_printed(line: str) -> None:
    assert report_rows.format_evidence([Evidence(host="n1", check="dmesg", line=line, says="in words")]) == ["n1 · dmesg", f"  {line}"]


def test_each_mover_has_plain_words() -> None:
    assert set(SOURCE_TEXTS) == set(get_args(ShiftSource))


# -- an incident's status sign -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("report", "mark"),
    [
        (REPORT, "🔴"),
        (REPORT.model_copy(update={"questions": ("Since when?",)}), "🔴"),
        (Report(item="x", outcome="abstained"), "❓"),
        (Report(item="x", outcome="abstained", questions=("Which hosts?",)), "❓"),
        (Report(item="x", outcome="abstained", could_not_look=REPORT.could_not_look), "❓"),
        (Report(item="x", outcome="no_fault"), "✅"),
    ],
)
def test_the_red_sign_is_for_faults(report: Report, mark: str) -> None:
    seen = get_incident_status(IncidentView({"id": "i1", "lifecycle": "waiting", "report": report.model_dump(mode="json")}))
    assert STATUS_SIGNS[seen.sign].mark == mark
    card = incident_card.render_incident_card(incident_card.IncidentCardView("i1", report, standing=seen))
    assert ("🔴" in f"{card.text}{strings(card.blocks)}") == (mark == "🔴")


def test_signs_differ_in_shape_and_reaction() -> None:
    assert len({row.mark for row in STATUS_SIGNS.values()}) == len({row.reaction for row in STATUS_SIGNS.values()}) == len(STATUS_SIGNS)


@pytest.mark.parametrize(("marks", "called", "closed", "shown"), [
    (("done", "next"), True, False, True), (("done", "next"), True, True, False), (("waiting",), True, True, False),
    (("done", "skipped"), True, True, True), (("done", "next"), False, True, False), (("done", "next"), False, False, True),
])  # fmt: skip
def test_a_guide_asks_for_nothing_once_the_incident_is_closed(marks: tuple[Any, ...], called: bool, closed: bool, shown: bool) -> None:
    steps = tuple(GuideStepRow(id=mark, mark=mark, does=mark) for mark in marks)
    report = REPORT.model_copy(update={"guide": GuideRun(id="gpu_lost", title="A GPU is lost", called=called, steps=steps)})
    card = incident_card.render_incident_card(
        incident_card.IncidentCardView("i1", report, standing=IncidentStatus("well", ("Closed.",), closed=closed))
    )
    assert ("A GPU is lost" in str(card.blocks)) == shown


# -- for operators and for people on site -------------------------------------------------------------------------------------


def exclude(report: Report, stats: IncidentCosts | None = None) -> str:
    words = "\n".join(strings(diagnosis.render_diagnosis("i1", report, stats, titles=TITLES).blocks))
    return words.partition("--exclude=")[2].partition("`")[0]


@pytest.mark.parametrize(
    ("hosts", "option"),
    [
        (("gpu-017",), "gpu-017"),
        (("gpu-019", "gpu-017"), "gpu-017,gpu-019"),
        (("node1.dc.example", "a_b"), "a_b,node1.dc.example"),
        ((), ""),
        (("gpu 1", "$(id)", "a,b", "-x"), ""),
        (tuple(f"n{number}" for number in range(33)), ""),
    ],
)
def test_operators_are_told_which_hosts_to_leave_out(hosts: tuple[str, ...], option: str) -> None:
    cause = FELL.model_copy(update={"hosts": hosts, "devices": ()})
    assert exclude(REPORT.model_copy(update={"root_causes": (cause,)})) == option


@pytest.mark.parametrize(
    ("label", "looked_at", "option"),
    [
        ("GPU.BUS.Fallen_Off_Bus", 3, "gpu-001,gpu-017"),
        ("GPU.BUS.Fallen_Off_Bus", 2, ""),
        ("USER.CODE.Illegal_Memory_Access", 3, ""),
        ("FRAMEWORK.NCCL.Known_Bug", 3, ""),
    ],
)
def test_no_host_is_left_out_for_a_mistake_of_the_job_or_where_none_would_be_left(label: str, looked_at: int, option: str) -> None:
    cause = FELL.model_copy(update={"label": label, "hosts": ("gpu-001", "gpu-017")})
    assert exclude(REPORT.model_copy(update={"root_causes": (cause,)}), IncidentCosts(hosts=looked_at)) == option


def test_hosts_of_all_causes_are_left_out_and_none_where_kubernetes_schedules() -> None:
    other = FELL.model_copy(update={"hosts": ("gpu-001",)})
    both = REPORT.model_copy(update={"root_causes": (FELL, other)})
    assert exclude(both) == "gpu-001,gpu-017"
    action = PlannedAction(
        label=FELL.label, rung=0, remedy="drain_node", target="gpu-017", via="k", risk="disruptive", argv=("cordon_node",)
    )
    assert exclude(both.model_copy(update={"actions": (action,)})) == ""
    assert exclude(Report(item="x", outcome="abstained")) == ""


FACTS = [
    Fact("smi", "gpu.product", "NVIDIA H100 80GB HBM3", "gpu5", host="gpu-017"),
    Fact("smi", "gpu.serial", "1654922003122", "gpu5", host="gpu-017"),
    Fact("smi", "gpu.bdf", "0000:9b:00.0", "gpu5", host="gpu-017"),
    Fact("smi", "gpu.module", status=Status.ABSENT, device="gpu5", host="gpu-017"),
    Fact("smi", "gpu.serial", "other", "gpu4", host="gpu-017"),
    Fact("smi", "gpu.serial", "another", "gpu5", host="gpu-018"),
    Fact("ib", "ib.guid", "0xe8ebd30300a1b2c3", "mlx5_3", host="gpu-017"),
    Fact("ib", "fabric.leaf", "leaf-07", host="gpu-017"),
]


@pytest.mark.parametrize(
    ("device", "must", "unread"),
    [
        (
            "gpu-017/gpu5",
            ["model `NVIDIA H100 80GB HBM3`", "serial `1654922003122`", "PCI `0000:9b:00.0`"],
            ["part", "module", "chassis slot"],
        ),
        ("gpu-018/gpu5", ["serial `another`"], ["model", "PCI", "module", "chassis slot"]),
        ("gpu-017/mlx5_3", ["GUID `0xe8ebd30300a1b2c3`", "leaf switch `leaf-07`"], ["PCI", "switch port"]),
        ("gpu-017/ib0", ["leaf switch `leaf-07`"], ["GUID", "PCI", "switch port"]),
        ("gpu-017/eth0", [], []),
        ("leaf:x", [], []),
    ],
)
def test_a_person_on_site_is_told_which_part_it_is(device: str, must: list[str], unread: list[str]) -> None:
    cause = Hypothesis(label=FELL.label, hosts=("gpu-017",), devices=(device,))
    told = "\n".join(text.render_line(line, 900) for line in details.render_hardware_ids([cause], FACTS))
    assert all(words in told for words in must)
    assert all(f"{words} not read" in told for words in unread)
    assert bool(told) == bool(must)
    assert "other`" not in told.replace("another`", "")
    view = details.render_details(IncidentView(STATE), TITLES, {}, "x", FACTS)
    assert "*On site*" in str(view)


# -- links of alerts -----------------------------------------------------------------------------------------------------------

GOOD = [
    "https://runbooks.example/gpu/xid",
    "http://prometheus:9090/graph?g0.expr=DCGM_FI_DEV_XID_ERRORS+%3E+0&g0.tab=1",
    "https://10.0.0.7/a",
    "https://wiki.example:8443/x#y",
]
BAD = [
    "javascript:alert(1)",
    "ftp://x.example/a",
    "https://user:pass@x.example/a",
    "https://x.example/a b",
    "https://x.example/<!channel>",
    "https://x.example/a|b",
    "HTTPS://x.example",
    "//x.example/a",
    "file:///etc/passwd",
    "https://x.example/\n",
    "https://x.example/?token=ghp_0123456789abcdefghijABCDEFGHIJ012345",
    "https://x.example/" + "a" * 600,
    "",
    None,
    7,
    ["https://x.example/"],
]


@pytest.mark.parametrize("url", GOOD)
def test_an_alert_brings_its_runbook_and_its_query(url: str) -> None:
    body = {
        "version": "4",
        "alerts": [{"status": "firing", "labels": {"alertname": "Xid"}, "annotations": {"runbook_url": url}, "generatorURL": url}],
    }
    [alert] = parse_alertmanager_webhook(json.dumps(body).encode(), AlertLabels()).alerts
    assert (alert.runbook, alert.source) == (url, url)
    ours = {"alerts": [{"id": "1", "name": "Xid", "runbook_url": url, "source_url": url}]}
    [told] = parse_own_webhook(json.dumps(ours).encode()).alerts
    assert (told.runbook, told.source) == (url, url)
    card = render_alert_card(count_alerts("Xid", [alert, told]))
    assert str(card.blocks).count(f"<{url.replace('&', '&amp;')}|") == 1, "each address once"
    assert fits(card)


@pytest.mark.parametrize("url", BAD)
def test_an_address_that_could_do_harm_is_no_link(url: object) -> None:
    assert parse_link_address(url) == ""
    raw = RawAlert("f", firing=True, labels={"alertname": "Hot"}, notes={"runbook_url": url} if isinstance(url, str) else {})
    assert parse_alert(raw, AlertLabels()).runbook == ""
    card = cards.render_alert_message("Hot", 1, 0, "n1", (), 0, [cards.AlertLink("Runbook", "Hot", str(url))])
    assert "javascript" not in str(card.blocks)
    assert "<!channel>" not in str(card.blocks)


def test_links_are_bounded_and_their_text_names_the_site() -> None:
    links = [cards.AlertLink("Runbook", f"A{n} <!here> |x", f"https://runbooks.example/{n}") for n in range(40)]
    card = cards.render_alert_message("Hot", 1, 0, "n1", (), 0, links)
    assert str(card.blocks).count("(runbooks.example)") == cards.MAX_LINKS
    assert "<!here>" not in str(card.blocks)
    assert fits(card)
