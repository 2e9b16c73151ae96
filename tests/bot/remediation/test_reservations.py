"""A held node that an operator returned by hand is no longer listed; an unreachable scheduler proves nothing."""

import json
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis

from bot.remediation.approval_decisions import CannotPropose
from graph.incident_view import IncidentView
from graph.remediation.drained_nodes import list_drained_nodes
from graph.state import Remediation
from tests.support.fakes_actions import Office, Site, hung, well

pytestmark = pytest.mark.slow


HOSTS = ("n1", "n2", "n3", "n4", "m1", "m2", "ctl")


@pytest.fixture
async def store() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


async def holding(store: Redis, kind: str = "stop") -> tuple[Office, str]:
    """Return an incident that drained its node before people took over or closed it."""
    made = Site(facts=well(*HOSTS))
    made.sick(hung("n1"))
    office = Office(store, made)
    incident = await office.mention()
    await office.approve(incident, "drain_node")
    await office.say(incident, kind, data={"label": "GPU.EXECUTION.Hung", "root_cause": "x"} if kind == "close" else {})
    return office, incident


async def later(office: Office, incident: str) -> Remediation:
    """Return its remediation after the next check of held nodes."""
    office.clock.go(minutes=11)
    assert incident in await office.index.claim_due(timedelta())
    await office.settle(incident)
    return IncidentView(await office.turns.load_state(incident)).remediations[0]


async def audited(office: Office) -> list[dict[str, str]]:
    entries = [json.loads(line) async for line in office.ledger.export_audit()]
    assert (await office.ledger.verify_audit()).good
    return [row for row in entries if row["event"] == "held_node_in_service"]


@pytest.mark.parametrize("kind", ["stop", "hand_off", "close"])
async def test_a_node_returned_by_hand_is_released_and_audited(store: Redis, kind: str) -> None:
    office, incident = await holding(store, kind)
    before = await later(office, incident)
    assert before.drained, "it is drained still"
    office.site.slurm["n1"] = "mixed"
    after = await later(office, incident)
    assert (after.drained, after.drained_by, after.outcome) == (False, "", before.outcome)
    assert after.says.endswith(f"n1 is back in service since {office.clock.now():%Y-%m-%d %H:%M} UTC at the latest, not by us (mixed)")
    assert "stays drained" not in after.says
    (entry,) = await audited(office)
    assert (entry["incident"], entry["target"], entry["state"], entry["by"]) == (incident, "n1", "mixed", "rackmedic")
    office.clock.go(minutes=30)
    assert incident not in await office.index.claim_due(timedelta()), "nothing is held: nobody looks any more"


async def test_who_asks_for_a_node_that_is_in_service_hears_so_and_it_is_held_no_more(store: Redis) -> None:
    office, incident = await holding(store)
    (ladder,) = IncidentView(await office.turns.load_state(incident)).remediations
    office.site.slurm["n1"] = "idle"
    with pytest.raises(CannotPropose, match=r"n1 is back in service since .*, not by us \(idle\): I no longer hold it\."):
        await office.decisions.propose_return(incident, ladder.id, "T1:ANN")
    await office.settle(incident)
    assert not list_drained_nodes(IncidentView(await office.turns.load_state(incident)).remediations)


@pytest.mark.parametrize("state", ["draining", "down", "idle*", "maint", "idle\ndrained", "unknown"])
async def test_only_a_node_in_service_is_returned(store: Redis, state: str) -> None:
    office, incident = await holding(store)
    office.site.slurm["n1"] = state
    assert (await later(office, incident)).drained
    assert await audited(office) == []


async def test_a_scheduler_that_does_not_answer_leaves_it_held_and_says_so_until_it_does(store: Redis) -> None:
    office, incident = await holding(store)
    office.site.silent = {"ctl"}
    ladder = await later(office, incident)
    (line,) = list_drained_nodes([ladder])
    assert f"could not look since {ladder.unasked:%Y-%m-%d %H:%M} UTC whether it still is" in line.render_line()
    since = ladder.unasked
    assert (await later(office, incident)).unasked == since
    office.site.silent = set()
    assert (await later(office, incident)).unasked is None
    office.site.silent = {"ctl"}
    again = await later(office, incident)
    assert again.unasked is not None
    assert again.drained


async def test_our_own_return_is_not_recorded_as_by_hand(store: Redis) -> None:
    made = Site(facts=well(*HOSTS))
    made.sick(hung("n1"))
    office = Office(store, made)
    incident = await office.mention()
    for remedy in ("drain_node", "gpu_reset", "resume_node"):
        await office.approve(incident, remedy)
    office.clock.go(minutes=11)
    await office.settle(incident)
    assert await audited(office) == []
    assert [row["waiting_for"] for row in await office.ladders(incident)] == ["proof"]


async def test_a_return_that_waits_for_its_decision_is_withdrawn_and_the_fix_is_proved_all_the_same(store: Redis) -> None:
    made = Site(facts=well(*HOSTS))
    made.sick(hung("n1"))
    office = Office(store, made)
    incident = await office.mention()
    await office.approve(incident, "drain_node")
    await office.approve(incident, "gpu_reset")
    assert [row.action.remedy for row in await office.pending(incident)] == ["resume_node"]
    office.site.slurm["n1"] = "idle"
    office.clock.go(minutes=2)
    await office.settle(incident)
    assert await office.pending(incident) == []
    (ladder,) = IncidentView(await office.turns.load_state(incident)).remediations
    assert (ladder.drained, ladder.waiting_for) == (False, "proof")
    assert len(await audited(office)) == 1
    assert office.site.counts() == {"drain_node": 1, "gpu_reset": 1}
