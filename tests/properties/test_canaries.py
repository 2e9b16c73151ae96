"""Nothing of tenant B reaches tenant A. B has canaries in all that a check reads: machines, jobs, users, logs, faults,
tickets. A asks for B in every way of naming, and everything A sees is searched. A name of B's and an unknown name
give the same text.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from itertools import product
from typing import Any, get_args

import pytest

from bot.tenants.cards import tenant_card
from bot.tenants.cards.answers import AnswerKind, render_answer
from bot.tenants.cards.view import TenantView, TenantViewContext, build_tenant_view
from deploy.sandbox.cluster.access.case_run import build_case_run
from graph.dialogue.intents import Intent
from graph.state import Origin, TenantThread
from kb.customers.cause_words import load_customer_words
from kb.history.incidents import PastIncident, load_seeds
from kb.history.index import PastIncidentIndex
from kb.history.lessons import Lesson
from kb.history.site_pages import SitePage
from kb.taxonomy.loader import load_taxonomy
from tests.support.talk import Talk, case_of
from tools.inventory.inventory import ChannelRow, Inventory

pytestmark = pytest.mark.tier2

WORDS = load_customer_words(load_taxonomy())
OURS, THEIRS = ("gpu-003", "gpu-004"), ("canary-b1", "canary-b2")
CAME = TenantThread(team="T1", channel="C0ACME", thread_ts="1.0", user="U0CARLA", user_team="T0ACME")
ORIGIN = Origin(kind="slack", team="T1", channel="C0OPS", thread_ts="2.0", user="U0CARLA", tenant="acme", customer=CAME)
CHANNELS = (
    ChannelRow(channel="C0OPS", kind="operators"),
    ChannelRow(channel="C0ACME", kind="tenant", tenant="acme", internal="C0OPS"),
    ChannelRow(channel="C0BETA", kind="tenant", tenant="canary-tenant", internal="C0OPS"),
)
# both tenants' aliases; some of B's look like A's
ALIASES = {"gpu-003": "train-01", "gpu-004": "train-02", "canary-b1": "train-canary-1", "canary-b2": "train-03"}
CANARIES = ("canary", "slurm-controller", "G07", "fallen off", "4711-canary")
FAULTS_OF_B = ("G07", "G17", "S08")
NAMES = (
    "canary-b1",
    "canary-b[1-2]",
    "CANARY-B1",
    "canary-b1.example",
    "canary_job",
    "canary-tenant",
    "slurm-controller",
    "train-canary-1",
    "train-03",
)
NOBODYS = (
    "phantom-b1",
    "phantom-b[1-2]",
    "PHANTOM-B1",
    "phantom-b1.example",
    "phantom_job",
    "phantom-tenant",
    "phantom-controller",
    "train-phantom-1",
    "train-04",
)
ASKS = (
    "job 4711 hangs on {}",
    "{} is slow since this morning, and so is gpu-003",
    "compare gpu-003 with {}",
    "what about {}? we share a switch",
    "all hosts hang",
    "show dmesg of {}",
    "check {} too",
)


def shared(inventory: Inventory) -> Inventory:
    """Return the machines divided between two tenants."""
    tenants = {**dict.fromkeys(OURS, "acme"), **dict.fromkeys(THEIRS, "canary-tenant")}
    hosts = {
        name: row.model_copy(update={"tenant": tenants.get(name, ""), "alias": ALIASES.get(name, "")})
        for name, row in inventory.hosts.items()
    }
    groups = {**inventory.groups, "acme": OURS, "canary-tenant": THEIRS}
    return inventory.model_copy(update={"hosts": hosts, "groups": groups, "channels": CHANNELS})


async def asked(
    text: str, *faults: dict[str, Any], closed: Sequence[PastIncident] = (), pages: Sequence[SitePage] = ()
) -> tuple[Talk, TenantView]:
    """Return A's view after this report. `closed`: additional past incidents; `pages`: the site's."""
    case = case_of(*faults, nodes=(*OURS, *THEIRS), job={"id": "4711", "user": "canary_user", "name": "canary_job"})
    stage = build_case_run(case, controller="slurm-controller")
    told = Talk.over(replace(stage, inventory=shared(stage.inventory)), ORIGIN)
    if closed:
        told.ports = replace(told.ports, history=PastIncidentIndex((*load_seeds(), *closed)))
    told.ports = replace(told.ports, pages=pages)
    await told.reports(text)
    reader = TenantViewContext(frozenset(OURS), WORDS, names=ALIASES)
    return told, build_tenant_view(await told.rows(), reader)


def seen(view: TenantView) -> str:
    card = tenant_card.render_tenant_card(view)
    return json.dumps([card.text, card.blocks, tenant_card.render_update(view).blocks], ensure_ascii=False)


def faults_of(nodes: Sequence[str], ids: Sequence[str]) -> list[dict[str, Any]]:
    return [{"id": id_, "node": node} for node, id_ in product(nodes, ids)]


@pytest.mark.parametrize("fault", FAULTS_OF_B)
@pytest.mark.parametrize("ask", ["training hangs on gpu-[003-004]", "all our hosts hang", "job 4711 hangs"])
async def test_what_befalls_b_is_neither_looked_at_nor_told(ask: str, fault: str) -> None:
    told, view = await asked(ask, *faults_of(THEIRS[:1], [fault]))
    assert {host for host, _ in told.ran} <= {*OURS, "slurm-controller"}
    assert not [word for word in CANARIES if word.lower() in seen(view).lower()]
    assert not view.causes


@pytest.mark.parametrize("ask", ["training on gpu-[003-004] stops, a GPU is gone", "job 4711 hangs on gpu-003, a GPU fell off the bus"])
async def test_what_bs_incident_was_closed_with_is_told_to_our_side_alone(ask: str) -> None:
    closed = PastIncident(
        id="inc-canary", title=f"{ask} canary-title", description=f"{ask} canary-story", label="GPU.BUS.Fallen_Off_Bus",
        root_cause="GPU 5 of canary-b1 fell off the bus", resolution="canary-person reseated it", hosts=THEIRS, source_url="https://canary.example",
    )  # fmt: skip
    told, view = await asked(ask, {"id": "G07", "node": "gpu-003", "gpu": 5}, closed=[closed])
    said = [render_answer(kind, view, ("train-01",), ()) for kind in get_args(AnswerKind)]
    shown = seen(view) + json.dumps([[card.text, card.blocks] for card in said], ensure_ascii=False)
    assert [cause.hosts for cause in view.causes] == [("train-01",)]
    assert "canary" not in shown.lower()
    assert "canary" in (await told.asks(Intent.HAPPENED_BEFORE)).lower(), "it was planted where nobody reads it"


@pytest.mark.parametrize("whose", [{"tenant": "canary-tenant"}, {"inside": True}, {}], ids=["b", "several", "nobody"])
@pytest.mark.parametrize("ask", ["training on gpu-[003-004] stops, a GPU is gone", "job 4711 hangs on gpu-003, something is odd"])
async def test_what_bs_incident_taught_is_told_to_our_side_alone_and_never_with_its_id(ask: str, whose: dict[str, Any]) -> None:
    taught = Lesson(
        id="les-canary", state="accepted", title=f"{ask} canary-title", description=f"{ask} canary-story", label="GPU.BUS.Fallen_Off_Bus",
        root_cause="GPU 5 of canary-b1 fell off", resolution="canary-person reseated it", incident="inc-canary", on=date(2026, 5, 3), **whose,
    )  # fmt: skip
    for faults in ([{"id": "G07", "node": "gpu-003", "gpu": 5}], []):
        told, view = await asked(ask, *faults, closed=[taught.to_past_incident(taught.on)])
        said = [render_answer(kind, view, ("train-01",), ()) for kind in get_args(AnswerKind)]
        assert "canary" not in (seen(view) + json.dumps([[card.text, card.blocks] for card in said], ensure_ascii=False)).lower()
        recalled = [row.incident for row in (await told.rows()).report.recalled]  # type: ignore[union-attr]
        assert set(recalled) <= (set() if whose else {"inc-canary"}), "what is none of theirs does not even order where one looks"
        assert not faults or whose or recalled == ["inc-canary"], "it was planted where nobody reads it"


# each name in two questions
PAIRS = [(ASKS[(n + turn) % len(ASKS)], *pair) for turn in (0, 3) for n, pair in enumerate(zip(NAMES, NOBODYS, strict=True))]


@pytest.mark.parametrize(("ask", "name", "nobodys"), PAIRS)
async def test_another_tenants_name_and_an_unknown_name_give_the_same_text(ask: str, name: str, nobodys: str) -> None:
    told, view = await asked(ask.format(name), *faults_of(THEIRS, ["G07"]))
    assert {host for host, _ in told.ran} <= {*OURS, "slurm-controller"}
    _, other = await asked(ask.format(nobodys), *faults_of(THEIRS, ["G07"]))
    marks = {name: "NAME", nobodys: "NAME", name.lower(): "NAME", nobodys.lower(): "NAME"}
    texts = [seen(view), seen(other)]
    for word, mark in marks.items():
        texts = [text.replace(word, mark) for text in texts]
    assert texts[0] == texts[1]
    assert not [word for word in CANARIES if word.lower() in texts[0].lower()]


@pytest.mark.parametrize("ask", ["training hangs on {}", "job 4711 hangs on {} since 10:00", "{}: nccl time-out", "compare {}"])
async def test_both_names_of_a_host_of_their_own_are_understood_and_one_is_shown(ask: str) -> None:
    views = [(await asked(ask.format(name), {"id": "G07", "node": "gpu-003"}))[1] for name in ("gpu-003", "train-01")]
    assert seen(views[0]) == seen(views[1])
    assert [cause.hosts for cause in views[0].causes] == [("train-01",)]
    assert "gpu-003" not in seen(views[0])


@pytest.mark.parametrize("labels", [("GPU.BUS.Fallen_Off_Bus",), ()])
async def test_what_our_pages_say_is_told_to_our_side_alone(labels: tuple[str, ...]) -> None:
    ask = "training on gpu-003 stops, a GPU is gone"
    page = SitePage("canary-page", f"{ask} canary-title", f"{ask}: canary-person of canary-b1 knows", labels, source="canary-wiki")
    told, view = await asked(ask, {"id": "G07", "node": "gpu-003", "gpu": 5}, pages=[page])
    said = [render_answer(kind, view, ("train-01",), ()) for kind in get_args(AnswerKind)]
    assert view.causes
    assert "canary" not in (seen(view) + json.dumps([[card.text, card.blocks] for card in said], ensure_ascii=False)).lower()
    report = (await told.rows()).report
    assert report
    assert [note.page for note in report.notes] == ["canary-page"], "it was planted where nobody reads it"
