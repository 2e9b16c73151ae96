"""The graph's nodes alone: state in, update out."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from langgraph.runtime import Runtime

from graph.context import GraphContext
from graph.engine.fact_preparation import prepare_facts
from graph.engine.priors import compute_model_priors, compute_past_priors, compute_word_priors, select_telling_incidents, sum_priors
from graph.extraction.pasted_text import extract_pasted_facts, find_fenced_blocks, store_attachments, strip_fences
from graph.incident.conclude import conclude
from graph.incident.context import TurnState, fold_asks, merge_facts, unfold_asks
from graph.incident.plan import plan
from graph.incident.reflect import reflect
from graph.incident.run_checks import execute
from graph.incident.summarise import summarise
from graph.incident.visibility import list_visible_hosts
from graph.model.reasoner import ReportExtraction
from graph.state import Attachment, InboxItem, IncidentBrief, IncidentState, Origin
from tests.support.fakes_graph import (
    CHECKS,
    DESYNC,
    HOT,
    LOST,
    TAXONOMY,
    FakeFleet,
    FakeHistory,
    FakeModel,
    Past,
    World,
    fact,
    healthy,
    instead,
    item,
)
from tools.evidence import MemoryEvidence
from tools.fact import Fact, Status, build_unobserved_fact
from tools.fleet.answers import FleetAnswers
from tools.inventory.inventory import parse_inventory

HOSTS = ("n1", "n2", "n3", "n4")


def runtime(world: World) -> Runtime[GraphContext]:
    return Runtime(context=world.ports())


def state(given: InboxItem | None = None, **more: Any) -> IncidentState:
    row = given or item("n2 is slow")
    return {"id": "inc-1", "item": row.model_dump(mode="json"), "opened_at": row.at.isoformat(), "version": 1, **more}  # type: ignore[typeddict-item]  # tests set what they need


async def looked(world: World, *sick: Fact) -> IncidentState:
    """Return a state after the first wave."""
    sha = await world.evidence.put_facts("inc-1", instead(healthy(*HOSTS), *sick))
    return state(facts=sha, rounds=1, turn={"hosts": "n[1-4]", "named": True}, tier="history", brief={"text": "slow", "hosts": list(HOSTS)})


async def test_summarise_keeps_words_and_reads_attachments() -> None:
    world = World()
    given = item("n2 is slow", attachments=(Attachment(name="a.log", text="joblog: job.error rank3 collective_desync"),))
    shelved = await store_attachments(given, world.evidence)
    update = await summarise(state(shelved), runtime=runtime(world))
    (row,) = await world.evidence.get_facts(update["facts"])
    assert (row.key, row.value, row.host) == ("job.error", "collective_desync", "")
    assert update["brief"]["hosts"] == ["n2"]
    assert update["said"][0]["attachments"][0]["sha256"] == row.sha256


async def test_a_reply_adds_to_the_brief() -> None:
    world = World()
    first = await summarise(state(item("n2 is slow")), runtime=runtime(world))
    again = state(item("and n3 too", "reply"), **first)
    second = await summarise(again, runtime=runtime(world))
    assert second["brief"]["hosts"] == ["n2", "n3"]
    assert second["brief"]["text"] == "n2 is slow\nand n3 too"
    assert [row["text"] for row in second["said"]] == ["n2 is slow", "and n3 too"]


async def test_items_that_want_an_answer_change_no_brief() -> None:
    assert set(await summarise(state(item("status?", "status")), runtime=runtime(World()))) == {"turn"}


async def test_a_models_guess_names_only_visible_hosts() -> None:
    model = FakeModel(guess=ReportExtraction(symptoms=("slow",), hosts=("n2", "n5", "evil"), job="4711"))
    update = await summarise(state(item("machine no. 2 crawls, evil too")), runtime=runtime(World(model=model, hosts="n[1-80]")))
    assert update["brief"]["hosts"] == ["n2"], "nobody wrote a 5"
    assert update["brief"]["job"] == "4711"


async def test_the_first_plan_is_one_wave_over_the_named_hosts() -> None:
    world = World(history=FakeHistory([Past(LOST, 0.8)]))
    given = state(rounds=0, brief={"text": "n2 is slow", "symptoms": ["slow"], "hosts": ["n2"]})
    update = await plan(given, runtime=runtime(world))
    assert set(unfold_asks(update["to_look"])) == {("n2", check.id) for check in CHECKS.values() if not check.exclusive}
    assert update["turn"]["past"] == [LOST]
    assert update["turn"]["priors"][LOST] > 0


async def test_a_large_fleet_is_not_searched_for_an_unnamed_host() -> None:
    update = await plan(state(rounds=0, brief={"text": "it hangs"}), runtime=runtime(World(hosts="n[1-65]")))
    assert update["to_look"] == []
    assert update["turn"]["questions"][0].startswith("Which hosts")


async def test_execute_keeps_facts_by_digest_and_counts_the_cost() -> None:
    world = World(fleet=FakeFleet(healthy(*HOSTS)))
    update = await execute(state(to_look=[{"hosts": "n[1-2]", "check": "smi"}]), runtime=runtime(world))
    assert {row.host for row in await world.evidence.get_facts(update["facts"])} == {"n1", "n2"}
    assert update["stats"]["checks"] == 2
    assert update["stats"]["check_seconds"] == 6.0
    assert update["to_look"] == []


async def test_execute_with_nothing_to_ask_asks_nothing() -> None:
    world = World()
    assert (await execute(state(to_look=[]), runtime=runtime(world)))["to_look"] == []
    assert world.fleet.asked == []


async def test_a_failing_fleet_leaves_no_inbox_watcher() -> None:
    class Broken(FakeFleet):
        async def run_checks(self, *_: object, **__: object) -> FleetAnswers:
            raise RuntimeError("no room for another file")

    with pytest.raises(RuntimeError, match="no room"):
        await execute(state(to_look=[{"hosts": "n1", "check": "smi"}]), runtime=runtime(World(fleet=Broken(healthy(*HOSTS)))))
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_sure_case_is_judged_by_no_model() -> None:
    world = World(model=FakeModel())
    update = await reflect(await looked(world, fact("n2", "dmesg", "kernel.xid", 79, "gpu3")), runtime=runtime(world))
    assert world.model is not None
    assert world.model.calls == []
    assert update["hypotheses"][0]["verdict"] == "confirmed"
    assert "evidence" not in update["hypotheses"][0]


async def test_conclude_marks_the_item_as_done_with_its_report() -> None:
    world = World()
    update = await conclude(await looked(world), runtime=runtime(world))
    assert update["done_items"] == ["mention-1"]
    assert update["report"]["item"] == "mention-1"
    assert update["report"]["outcome"] == "no_fault"


async def test_expired_facts_read_as_not_looked_at() -> None:
    update = await conclude(state(facts="f" * 64, turn={"hosts": "n1"}), runtime=runtime(World()))
    assert update["report"]["outcome"] == "abstained"


@pytest.mark.parametrize(
    ("origin", "seen"),
    [
        (Origin(kind="terminal"), {"a1", "a2", "b1"}),
        (Origin(kind="slack", channel="OPS"), {"a1", "a2", "b1"}),
        (Origin(kind="slack", channel="CUST"), {"b1"}),
        (Origin(kind="slack", channel="UNBOUND"), set()),
        (Origin(kind="slack", channel="UNBOUND", tenant="acme"), {"b1"}),
    ],
)
def test_a_channel_sees_its_own_hosts_only(origin: Origin, seen: set[str]) -> None:
    inventory = parse_inventory(
        {
            "groups": {"a": {"hosts": "a[1-2]"}, "b": {"hosts": "b1", "tenant": "acme"}},
            "channels": [{"channel": "OPS"}, {"channel": "CUST", "kind": "tenant", "tenant": "acme"}],
        }
    )
    assert set(list_visible_hosts(inventory, origin)) == seen


def test_asks_fold_and_unfold() -> None:
    asks = [(f"gpu-{n:03}", check) for check in ("smi", "dmesg") for n in range(1, 101)]
    rows = fold_asks(asks)
    assert rows == [{"hosts": "gpu-[001-100]", "check": "smi"}, {"hosts": "gpu-[001-100]", "check": "dmesg"}]
    assert set(unfold_asks(rows)) == set(asks)


def test_a_newer_answer_replaces_the_older_whole() -> None:
    old = [fact("n1", "smi", "gpu.count", 7), fact("n2", "smi", "gpu.count", 8), Fact("joblog", "job.error", "x", line="x")]
    new = [fact("n1", "smi", "gpu.count", 8), Fact("joblog", "job.error", "x", line="x")]
    assert [(row.host, row.value) for row in merge_facts(old, new)] == [("n2", 8), ("", "x"), ("n1", 8)]


def test_a_turn_survives_the_state() -> None:
    assert TurnState.from_state({"turn": {"hosts": "n1"}}) == TurnState(hosts="n1")
    turn = TurnState(hosts="n[1-4]", priors={LOST: 1.5}, cut="stop", asked=("When?",))
    assert TurnState.from_state({"turn": turn.to_json()}) == turn
    assert TurnState().to_json() == {}


async def test_execute_reads_no_row_that_it_does_not_need() -> None:
    world = World(fleet=FakeFleet(healthy(*HOSTS)))
    given = state(report={"words": "unreadable"}, to_look=[{"hosts": "n1", "check": "smi"}])
    assert (await execute(given, runtime=runtime(world)))["stats"]["checks"] == 1


async def test_an_answer_leaves_every_row_but_its_own_as_it_is_stored() -> None:
    given = state(item("status?", "status"), turn={"hosts": "n1"}, hypotheses=[{"label": LOST}], lifecycle="waiting")
    update = await conclude(given, runtime=runtime(World()))
    assert set(update) == {"report", "facts", "stats", "done_items", "to_look", "tier", "turns"}
    assert "State: waiting" in update["report"]["reply"]


def test_pasted_blocks_are_logs_and_the_rest_words() -> None:
    text = "it hangs\n```\nline one\nline two\n```\nplease help `x`"
    assert [block.text for block in find_fenced_blocks(text)] == ["line one\nline two"]
    assert strip_fences(text).split() == ["it", "hangs", "please", "help", "`x`"]
    unknown = extract_pasted_facts("nothing any parser knows", CHECKS)
    assert ([(fact.key, fact.value) for fact in unknown.facts], unknown.recognised) == ([("check.not_understood", 0)], False)


async def test_what_is_stored_of_an_item_is_redacted() -> None:
    evidence = MemoryEvidence()
    given = item("token hf_abcdefghijklmnopqrstuvwxyz0123456789", attachments=(Attachment(name="x", text="AKIAIOSFODNN7EXAMPLE\n" * 2),))
    kept = await store_attachments(given, evidence)
    assert "hf_abc" not in kept.text
    assert kept.attachments[0].text == ""
    assert "AKIAIOSFODNN7EXAMPLE" not in (await evidence.get_text(kept.attachments[0].sha256) or "")


def test_words_history_and_models_only_suggest() -> None:
    brief = IncidentBrief(text="the GPU has fallen off the bus", symptoms=("no_device",))
    words = compute_word_priors(TAXONOMY, brief)
    assert max(words, key=lambda label: words[label]) == LOST
    assert 0 < words[LOST] <= 1.5
    assert compute_past_priors([(LOST, 3.0)]) == {LOST: 1.0}
    assert compute_model_priors({HOT: 0.5, DESYNC: 7.0}) == {HOT: 0.75, DESYNC: 1.5}, "bounded, whatever a model says"
    assert sum_priors({HOT: 1.0}, {HOT: 0.5, LOST: 1}) == {HOT: 1.5, LOST: 1}


def test_of_past_incidents_those_are_taken_that_words_speak_for_and_each_of_another_cause() -> None:
    alike = [Past(HOT, 0.5), Past(HOT, 0.49), Past(DESYNC, 0.4), Past(LOST, 0.3)]
    assert [one.label for one in select_telling_incidents(alike, {})] == [HOT, DESYNC]
    assert [one.label for one in select_telling_incidents(alike, {LOST: 1.5})] == [LOST, HOT]
    assert [one.label for one in select_telling_incidents(alike, {LOST: 1.0})] == [HOT, LOST], (
        "words order them, and what is most alike stays"
    )
    assert select_telling_incidents(alike, {HOT: 1.5})[0].score == 0.5
    assert select_telling_incidents([], {LOST: 1.5}) == []


def test_xids_on_many_gpus_are_the_programs_and_on_one_part_the_gpus() -> None:
    spread = [fact(host, "dmesg", "kernel.xid", 31, f"gpu{n}", attrs={"count": 2}) for host in ("n1", "n2") for n in range(2)]
    assert {row.value for row in prepare_facts(spread) if row.key == "kernel.xid_repeat"} == {"scattered"}
    same = [fact("n1", "dmesg", "kernel.xid", 13, "gpu4", attrs={"pids": [1, 2, 3], "gpc": 1, "tpc": 2})]
    (pattern,) = [row for row in prepare_facts(same) if row.key == "kernel.xid_repeat"]
    assert (pattern.value, pattern.device, pattern.host) == ("same_tpc", "gpu4", "n1")
    assert not [row for row in prepare_facts([replace(row, stale=True) for row in same]) if row.key == "kernel.xid_repeat"]


def test_a_gpu_that_is_not_listed_gets_a_fact_of_its_own() -> None:
    bus = ("0000:19:00.0", "0000:3b:00.0", "0000:4c:00.0")
    facts = [fact("n1", "smi", "gpu.bdf", address, name) for address, name in zip(bus[:2], ("gpu0", "gpu1"), strict=True)]
    (gone,) = [row for row in prepare_facts(facts, bus=lambda host: bus) if row.key == "gpu.missing"]
    assert (gone.host, gone.device, gone.value) == ("n1", "gpu2", True)


def test_blind_facts_derive_nothing_about_a_host_that_answered() -> None:
    facts = [*healthy("n1"), build_unobserved_fact("dmesg", Status.TIMEOUT, "slow", "n1")]
    assert not [row for row in prepare_facts(facts) if row.key == "host.reachable"]
