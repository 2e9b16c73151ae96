"""Operators may check other machines in a tenant's incident; results stay internal, and the tenant cannot widen the
scope.
"""

from dataclasses import replace
from typing import Any, cast

import pytest

from bot.tenants.cards.view import TenantView, TenantViewContext, build_tenant_view
from deploy.sandbox.cluster.access.case_run import build_case_run
from graph.dialogue.read import parse_message
from graph.incident.visibility import build_vocabulary
from graph.state import SIDE_KEY, TENANT_SIDE, IncidentState, Origin, Remediation
from tests.properties.test_canaries import ALIASES, CANARIES, ORIGIN, OURS, THEIRS, WORDS, seen, shared
from tests.support.talk import Talk, case_of
from tools.inventory.job_lookup import JobFilter, JobHosts

pytestmark = pytest.mark.tier2

OPERATORS = Origin(kind="slack", team="T1", channel="C0OPS", thread_ts="2.0", user="U0PRIYA")
WIDER = ("check canary-b1 too", "what about canary-b1?", "check group canary-tenant too", "check all hosts too")


async def reported(*faults: dict[str, Any]) -> Talk:
    case = case_of(*faults, nodes=(*OURS, *THEIRS), job={"id": "4711", "user": "canary_user", "name": "canary_job"})
    stage = build_case_run(case, controller="slurm-controller")
    told = Talk.over(replace(stage, inventory=shared(stage.inventory)), ORIGIN)
    await told.reports("training is slow on gpu-[003-004], job 4711")
    return told


async def on_call(told: Talk, text: str) -> None:
    names = build_vocabulary(told.ports.inventory, told.ports.taxonomy, told.ports.fleet.checks, OPERATORS)
    await told.means(parse_message(text, names, told.ports.clock.now()), "U0PRIYA")


async def customer(told: Talk, text: str) -> None:
    names = build_vocabulary(told.ports.inventory, told.ports.taxonomy, told.ports.fleet.checks, ORIGIN)
    await told.means(parse_message(text, names, told.ports.clock.now()), "U0CARLA", **{SIDE_KEY: TENANT_SIDE})


async def view_of(told: Talk) -> TenantView:
    return build_tenant_view(await told.rows(), TenantViewContext(frozenset(OURS), WORDS, others=frozenset(THEIRS), names=ALIASES))


@pytest.mark.parametrize("text", [WIDER[0], WIDER[3]])
async def test_our_side_looks_at_a_neighbour_and_the_customer_reads_nothing_of_it(text: str) -> None:
    told = await reported({"id": "G07", "node": "canary-b1"})
    before = await view_of(told)
    await on_call(told, text)
    assert "canary-b1" in {host for host, _ in told.ran}
    causes = (await told.rows()).report
    assert causes
    assert "canary-b1" in {host for cause in causes.root_causes for host in cause.hosts}
    after = await view_of(told)
    assert after.causes == before.causes == ()
    assert (after.avoid, after.state, after.unknown_hosts) == ((), "", ())
    assert not [word for word in CANARIES if word.lower() in seen(after).lower()]


@pytest.mark.parametrize("text", WIDER)
async def test_a_customer_names_no_host_of_others_however_wide_our_side_looked(text: str) -> None:
    told = await reported()
    await customer(told, text)
    assert not {host for host, _ in told.ran} & set(THEIRS)
    assert not set((await told.rows()).brief.hosts) & set(THEIRS)


async def test_what_their_own_machine_shows_crosses_with_their_machine_alone() -> None:
    told = await reported({"id": "G17", "node": "gpu-003"}, {"id": "G17", "node": "canary-b1"})
    await on_call(told, WIDER[0])
    view = await view_of(told)
    assert view.avoid == ("train-01",)
    assert not [word for word in CANARIES if word.lower() in seen(view).lower()]


async def test_how_far_the_repair_of_a_neighbour_is_is_no_news_for_the_customer() -> None:
    told = await reported()
    rows = await told.rows()
    ladder = Remediation(id="lad-1", label="GPU.BUS.Fallen_Off_Bus", target="canary-b1", drained=True)
    stored = {**rows.stored, "ladders": [ladder.model_dump(mode="json")], "lifecycle": "watching"}
    reader = TenantViewContext(frozenset(OURS), WORDS, others=frozenset(THEIRS))
    assert build_tenant_view(replace(rows, stored=cast(IncidentState, stored)), reader).state == ""


async def test_a_job_of_bs_and_a_job_of_nobodys_get_the_same_words() -> None:
    places = {"4712": JobHosts(THEIRS), "99999": JobHosts(why="not_known")}
    asked: list[str] = []

    async def place(job: str, mine: JobFilter) -> JobHosts:
        asked.append(job)
        assert mine(OURS[:1])
        assert not mine(THEIRS)
        return places[job]

    shown = []
    for job in places:
        stage = build_case_run(case_of(nodes=(*OURS, *THEIRS)), controller="slurm-controller")
        told = Talk.over(replace(stage, inventory=shared(stage.inventory)), ORIGIN)
        told.ports = replace(told.ports, own_job=place)
        await told.reports(f"job {job} hangs")
        view = await view_of(told)
        assert view.unknown_job == job
        shown.append((list(told.ran), seen(view).replace(job, "JOB")))
    assert shown[0] == shown[1]
    assert asked == list(places)
