"""Closed incidents are found by host, device and cause, within the asker's scope, until they expire."""

from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis
from redis.asyncio import Redis
from redis.exceptions import ConnectionError as RedisGone

from bot.incidents.dispatch.closed_incidents import build_closed_incident, update_closed_incident
from bot.policy.channels import build_channel_bindings, get_incident_visibility
from bot.store.closed_incident_index import ClosedIncidentIndex
from bot.store.keys import RedisKeys
from graph.closed_incidents import ClosedIncident, ClosedIncidentCause, ClosedIncidentQuery
from graph.incident_view import serialize_remediations
from graph.report import Report
from graph.state import HandoffTicket, HumanCorrection, Hypothesis, IncidentState, Origin, Remediation, RemediationStep
from tests.support.clock import T0, SetClock
from tools.inventory.inventory import ChannelRow

DEAD, ECC = "GPU.BUS.Fallen_Off_Bus", "GPU.MEMORY.Uncorrectable"
OPS, TRAIN, ACME, BETA = "C0OPS", "C0TRAIN", "C0ACME", "C0BETA"
BOUND = build_channel_bindings(
    [
        ChannelRow(channel=OPS, name="ops", kind="operators"),
        ChannelRow(channel=TRAIN, name="train", kind="operators", groups=("train",)),
        ChannelRow(channel=ACME, name="acme", kind="tenant", tenant="acme"),
        ChannelRow(channel=BETA, name="beta", kind="tenant", tenant="beta"),
    ]
)
KEEP = timedelta(days=30)


def place(channel: str = OPS) -> Origin:
    return Origin(kind="slack", team="T1", channel=channel, thread_ts="1.0", user="U1")


def row(name: str, days_ago: float, *hosts: str, label: str = DEAD, devices: tuple[str, ...] = (), channel: str = OPS) -> ClosedIncident:
    at = T0 - timedelta(days=days_ago)
    cause = ClosedIncidentCause(label=label, hosts=hosts, devices=devices)
    return ClosedIncident(
        incident=name, origin=place(channel), opened=at, closed=at + timedelta(hours=2), ended="cured", causes=(cause,), did=("gpu_reset",)
    )


def ask(
    *hosts: str, labels: tuple[str, ...] = (), devices: tuple[str, ...] = (), channel: str = OPS, visible: tuple[str, ...] = ()
) -> ClosedIncidentQuery:
    return ClosedIncidentQuery("inc-now", place(channel), visible or hosts, hosts, devices, labels)


@pytest.fixture
async def redis() -> AsyncIterator[Redis]:
    async with FakeAsyncRedis() as redis:
        yield redis


def kept_on(redis: Redis) -> ClosedIncidentIndex:
    return ClosedIncidentIndex(redis, lambda reader, other: get_incident_visibility(reader, other, BOUND), KEEP)


async def names(earlier: ClosedIncidentIndex, wanted: ClosedIncidentQuery) -> list[str]:
    return [one.incident for one in (await earlier.find_incidents(wanted)).found]


async def test_they_are_found_by_host_by_cause_and_by_device_newest_first(redis: Redis) -> None:
    earlier = kept_on(redis)
    for one in (row("a", 9, "n1", devices=("n1/gpu3",)), row("b", 5, "n1", label=ECC), row("c", 2, "n2"), row("d", 1, "n3", label=ECC)):
        await earlier.save_incident(one)
    assert await names(earlier, ask("n1")) == ["b", "a"]
    assert await names(earlier, ask("n1", labels=(DEAD,))) == ["c", "b", "a"]
    assert await names(earlier, ask(devices=("n1/gpu3",))) == ["a"]
    assert await names(earlier, ask("n9")) == []
    assert (await earlier.find_incidents(ask("n9"))).since == T0 - timedelta(days=9)


async def test_no_incident_is_its_own_past(redis: Redis) -> None:
    earlier = kept_on(redis)
    await earlier.save_incident(row("inc-now", 1, "n1"))
    assert await names(earlier, ask("n1")) == []


async def test_a_tenant_finds_only_its_own_incidents(redis: Redis) -> None:
    earlier = kept_on(redis)
    for one in (row("ours", 3, "n1", channel=ACME), row("theirs", 2, "n1", channel=BETA), row("inside", 1, "n1", channel=OPS)):
        await earlier.save_incident(one)
    seen = await earlier.find_incidents(ask("n1", labels=(DEAD,), channel=ACME))
    assert ([one.incident for one in seen.found], seen.since) == (["ours"], T0 - timedelta(days=3))
    assert await names(earlier, ask("n1", channel=OPS)) == ["inside"]


async def test_operators_of_some_hosts_hear_of_those_alone(redis: Redis) -> None:
    earlier = kept_on(redis)
    await earlier.save_incident(row("wide", 2, "n1", "m7", devices=("n1/gpu1", "m7/gpu2")))
    await earlier.save_incident(row("away", 1, "m7"))
    (told,) = (await earlier.find_incidents(ask("n1", labels=(DEAD,), channel=TRAIN, visible=("n1", "n2")))).found
    assert (told.incident, told.all_hosts, told.devices) == ("wide", ("n1",), ("n1/gpu1",))


async def test_what_is_gone_is_found_no_more_and_leaves_the_indices(redis: Redis) -> None:
    earlier, key = kept_on(redis), RedisKeys().closed_index_key("host", "n1")
    await earlier.save_incident(row("a", 9, "n1"))
    await earlier.save_incident(row("b", 1, "n1"))
    await redis.delete(RedisKeys().incident_key("a", "earlier"))
    seen = await earlier.find_incidents(ask("n1"))
    assert ([one.incident for one in seen.found], seen.since) == (["b"], T0 - timedelta(days=1))
    assert await redis.zrange(key, 0, -1) == [b"b"]
    assert 0 < await redis.ttl(key) <= KEEP.total_seconds()
    assert 0 < await redis.ttl(RedisKeys().incident_key("b", "earlier")) <= KEEP.total_seconds()


async def test_an_unsearched_index_is_bounded(redis: Redis) -> None:
    earlier = ClosedIncidentIndex(redis, lambda reader, other: get_incident_visibility(reader, other, BOUND), KEEP, max_incidents=3)
    for number in range(6):
        await earlier.save_incident(row(f"i{number}", 9 - number, "n1"))
    assert await redis.zrange(RedisKeys().closed_index_key("all"), 0, -1) == [b"i3", b"i4", b"i5"]
    assert await redis.zrange(RedisKeys().closed_index_key("host", "n1"), 0, -1) == [b"i3", b"i4", b"i5"]


async def test_a_row_that_cannot_be_read_is_passed_over(redis: Redis) -> None:
    earlier = kept_on(redis)
    await earlier.save_incident(row("a", 9, "n1"))
    await redis.set(RedisKeys().incident_key("a", "earlier"), b'{"damaged": 1}')
    assert await names(earlier, ask("n1")) == []


async def test_a_store_that_does_not_answer_is_no_answer() -> None:
    class Away(FakeAsyncRedis):
        async def execute_command(self, *args: Any, **options: Any) -> Any:
            raise RedisGone("away")

    async with Away() as redis:
        assert "did not answer" in (await kept_on(redis).find_incidents(ask("n1"))).could_not


# From a closed incident to its row


def state(lifecycle: str = "closed", **more: Any) -> IncidentState:
    report = Report(item="m", outcome="diagnosed", root_causes=(Hypothesis(label=DEAD, hosts=("n1",), devices=("n1/gpu3",)),))
    base: dict[str, Any] = {
        "id": "inc-1",
        "lifecycle": lifecycle,
        "opened_at": T0.isoformat(),
        "origin": place().model_dump(mode="json"),
        "brief": {"hosts": ["n1", "n2"]},
        "report": report.model_dump(mode="json"),
        "item": {"id": "m", "kind": "close", "incident": "inc-1", "at": T0.isoformat()},
    }
    return {**base, **more}  # type: ignore[typeddict-item]  # keys of Incident alone


def fixed(**more: Any) -> list[dict[str, object]]:
    rungs = (
        RemediationStep(remedy="drain_node", part="prepare"),
        RemediationStep(remedy="gpu_reset"),
        RemediationStep(remedy="resume_node", part="restore"),
    )
    return serialize_remediations([Remediation(id="l1", label=DEAD, target="n1", rungs=rungs, rung=2, **more)])


def row_of(stored: IncidentState, at: datetime = T0) -> ClosedIncident:
    found = build_closed_incident(stored, at)
    assert found
    return found


def test_how_it_ended_is_never_said_better_than_it_was_proved() -> None:
    cured = row_of(state(ladders=fixed(proven="apr-1", since=T0, outcome="cured")))
    assert (cured.ended, cured.did, cured.labels, cured.devices) == ("cured", ("gpu_reset",), (DEAD,), ("n1/gpu3",))
    once = row_of(state(ladders=fixed(proven="apr-1", since=T0, outcome="stopped")))
    assert (once.ended, once.did) == ("passed", ("gpu_reset",))
    vain = row_of(state(ladders=fixed(since=T0, outcome="ticket")))
    assert (vain.ended, vain.did) == ("in_vain", ())
    assert row_of(state()).ended == "person"
    assert row_of(state(item={"id": "t", "kind": "timer", "incident": "inc-1", "at": T0.isoformat()})).ended == "quiet"
    assert build_closed_incident(state("open"), T0) is None


def test_the_fix_of_one_cause_does_not_speak_for_another() -> None:
    two = (Hypothesis(label=DEAD, hosts=("n1",), devices=("n1/gpu3",)), Hypothesis(label=ECC, hosts=("n2",)))
    report = Report(item="m", outcome="diagnosed", root_causes=two).model_dump(mode="json")
    cured = fixed(proven="apr-1", since=T0, outcome="cured")
    assert row_of(state(ladders=cured, report=report)).ended == "in_part"
    wide = Report(item="m", outcome="diagnosed", root_causes=(Hypothesis(label=DEAD, hosts=("n1", "n2")),)).model_dump(mode="json")
    assert row_of(state(ladders=cured, report=wide)).ended == "in_part"


def test_a_persons_word_is_what_it_was() -> None:
    ticket = HandoffTicket(state="resolved", true_label=ECC, closed_by="U1").model_dump(mode="json")
    said = row_of(state(ticket=ticket))
    assert (said.ended, said.labels, said.all_hosts) == ("person", (ECC,), ("n1", "n2"))
    well = row_of(state(ticket={**ticket, "true_label": "NO_FAULT"}))
    assert (well.ended, well.labels, well.all_hosts) == ("well", (), ("n1", "n2"))
    denied = row_of(state(correction=HumanCorrection(by="U1", denied=(DEAD,)).model_dump(mode="json")))
    assert denied.labels == ()


async def test_the_report_that_closes_it_makes_it_past_and_one_that_opens_it_again_takes_it_back(redis: Redis) -> None:
    earlier, report = kept_on(redis), Report(item="m", outcome="diagnosed")
    await update_closed_incident(earlier, SetClock(), "inc-1", state(), report)
    assert await names(earlier, ask("n1")) == ["inc-1"]
    await update_closed_incident(earlier, SetClock(), "inc-1", state("open"), report)
    assert await names(earlier, ask("n1")) == []
