"""The incident graph with fakes: each item leads to one turn and one report, under crashes, failures and models."""

import json
from dataclasses import replace
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver

from graph.checkpoints.checkpoint import RedisSaver
from graph.context import PendingHosts, Progress
from graph.incident.answers.item_answers import WAITING_TEXT
from graph.incident.incident_graph import GRAPH_NODES, build_incident_graph, run_single_turn, run_turn
from graph.model.reasoner import Idea, Ideas, Objection, ReportExtraction
from graph.report import Report
from graph.state import GRAPH_VERSION, Attachment, InboxItem, InboxItemKind, IncidentState, Origin
from kb.history.mistakes import MistakeNote
from tests.support.dying_saver import DyingSaver
from tests.support.fakes_graph import (
    DESYNC,
    LOST,
    OOM,
    SLOW_LINK,
    FakeFleet,
    FakeHistory,
    FakeModel,
    Killed,
    Past,
    World,
    fact,
    healthy,
    instead,
    item,
)
from tools.fact import Fact

pytestmark = pytest.mark.slow


HOSTS = ("n1", "n2", "n3", "n4")
LOST_ON_N2 = fact("n2", "dmesg", "kernel.xid", 79, "gpu3")
KILLED_ON_N3 = fact("n3", "dmesg", "kernel.oom_kill", "python3")


def world(*sick: Fact, **more: Any) -> World:
    return World(fleet=FakeFleet(instead(healthy(*HOSTS), *sick)), **more)


class Desk:
    """Runs turns of one incident on one saver, as the dispatcher does."""

    def __init__(self, world: World, saver: BaseCheckpointSaver[Any] | None = None) -> None:
        self.world = world
        self.graph = build_incident_graph(saver or InMemorySaver())

    async def turn(self, given: InboxItem, origin: Origin | None = None) -> Report:
        return await run_turn(self.graph, self.world.ports(), given, origin)

    async def state(self) -> IncidentState:
        snapshot = await self.graph.aget_state({"configurable": {"thread_id": "inc-1"}})
        assert snapshot.next == ()
        return snapshot.values  # type: ignore[return-value]


async def test_a_mention_becomes_a_proven_diagnosis() -> None:
    desk = Desk(world(LOST_ON_N2))
    report = await desk.turn(item("@rackmedic job 4711 hangs on n2, a GPU has fallen off"))
    assert report.outcome == "diagnosed"
    (cause,) = report.root_causes
    assert (cause.label, cause.devices) == (LOST, ("n2/gpu3",))
    assert cause.evidence[0].line == "kernel.xid 79 gpu3"
    assert report.headline == "Lost (n2/gpu3)"
    assert report.next_step == f"mend {LOST}"
    assert report.without_model == "no model is configured"
    assert report.item == "mention-1"


async def test_an_item_is_answered_once() -> None:
    desk = Desk(world(LOST_ON_N2))
    first = await desk.turn(item("n2 is broken"))
    asked = len(desk.world.fleet.asked)
    assert await desk.turn(item("n2 is broken")) == first
    assert len(desk.world.fleet.asked) == asked


async def test_healthy_machines_are_no_fault_and_say_how_that_is_known() -> None:
    report = await Desk(world()).turn(item("GPUs are broken on n1"))
    assert report.outcome == "no_fault"
    assert report.headline == "No fault found: 4 hosts looked at with 84 checks, nothing abnormal."


async def test_people_may_blame_the_wrong_host() -> None:
    desk = Desk(world(KILLED_ON_N3))
    report = await desk.turn(item("n1 killed my job"))
    assert [(row.label, row.hosts) for row in report.root_causes] == [(OOM, ("n3",))]
    assert {ask.host for ask in desk.world.fleet.asked} == set(HOSTS)


async def test_hosts_that_cannot_be_reached_are_never_healthy() -> None:
    desk = Desk(World(fleet=FakeFleet(dark=dict.fromkeys(HOSTS, "connection timed out"))))
    report = await desk.turn(item("everything hangs"))
    assert report.outcome == "abstained"
    assert report.headline.startswith("No cause proven: 4 hosts asked, none answered; ")
    assert [(row.host, row.check, row.why) for row in report.could_not_look] == [(host, "all", "connection timed out") for host in HOSTS]
    assert report.questions
    assert report.root_causes == ()


async def test_a_blind_decisive_check_is_reported_not_guessed() -> None:
    desk = Desk(world())
    desk.world.fleet.dark = {"n2/dmesg": "no answer within 20 s"}
    report = await desk.turn(item("job hangs on n2"))
    assert report.outcome == "abstained"
    assert ("n2", "dmesg") in {(row.host, row.check) for row in report.could_not_look}


async def test_no_host_known_asks_instead_of_looking_everywhere() -> None:
    desk = Desk(World(hosts="n[1-80]"))
    report = await desk.turn(item("it hangs"))
    assert report.outcome == "abstained"
    assert report.questions[0].startswith("Which hosts")
    assert desk.world.fleet.asked == []
    assert (await desk.state())["lifecycle"] == "waiting"


async def test_an_answer_counts_as_evidence_is_not_asked_for_again_and_never_hands_over_by_itself() -> None:
    desk = Desk(world(fact("n1", "dmesg", "kernel.xid", 167, "gpu0")))
    first = await desk.turn(item("n1 is odd"))
    assert first.outcome == "abstained"
    assert 1 <= len(first.questions) <= 3
    asked = list(first.questions)
    for n, words in enumerate(("nothing changed, it is just odd", "no, never before", "no idea", "as I said", "still odd")):
        report = await desk.turn(item(words, "reply", f"reply-{n}"))
        assert (report.outcome, set(report.questions) & set(asked)) == ("abstained", set())
        asked += report.questions
    state = await desk.state()
    assert (report.questions, state["lifecycle"], state.get("ticket")) == ((), "open", None)
    assert "no more questions" in report.next_step
    assert "no, never before" in state["brief"]["text"]


async def test_who_hands_over_leaves_a_ticket_that_later_answers_bring_up_to_date() -> None:
    desk = Desk(world(fact("n1", "dmesg", "kernel.xid", 167, "gpu0")))
    await desk.turn(item("n1 is odd"))
    await desk.turn(item("", "hand_off"))
    await desk.turn(item("it began at noon", "reply"))
    state = await desk.state()
    assert state["lifecycle"] == "handed_off"
    assert "it began at noon" in state["ticket"]["summary"]
    assert "n1: Xid 167 on gpu0" in state["ticket"]["summary"]
    assert state["ticket"]["owner"] == "provider"


async def test_a_log_in_the_answer_settles_a_users_mistake() -> None:
    desk = Desk(world())
    desk.world.hosts = "n[1-40]"
    await desk.turn(item("it hangs"))
    log = Attachment(name="rank0.log", text="joblog: job.error rank7 collective_desync")
    report = await desk.turn(item("here", "attach", attachments=(log,)))
    (cause,) = report.root_causes
    assert (cause.label, cause.hosts) == (DESYNC, ())
    assert cause.evidence[0].sha256
    state = await desk.state()
    assert "collective_desync" not in json.dumps(state["item"])


async def test_pasted_blocks_count_as_attachments() -> None:
    report = await Desk(world()).turn(
        item("n1 hangs:\n```\njoblog: job.error rank7 collective_desync\njoblog: job.error rank8 collective_desync\n```")
    )
    assert [row.label for row in report.root_causes] == [DESYNC]


async def test_secrets_never_reach_the_state() -> None:
    desk = Desk(world())
    await desk.turn(item("n1 hangs, HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyz0123456789"))
    assert "hf_abcdefghij" not in json.dumps(await desk.state(), default=str)


@pytest.mark.parametrize("node", ["plan", "execute", "reflect", "conclude"])
async def test_a_crash_in_any_node_still_ends_in_exactly_one_turn(node: str) -> None:
    desk = Desk(world(LOST_ON_N2))
    fell = _fall_once(desk.world, node)
    with pytest.raises(Killed):
        await desk.turn(item("n2 is broken"))
    assert fell
    report = await desk.turn(item("and now?", "reply", id="reply-1"))
    state = await desk.state()
    assert state["done_items"] == ["mention-1", "reply-1"]
    assert report.item == "reply-1"
    assert [row.label for row in report.root_causes] == [LOST]
    assert [row["text"] for row in state["said"]] == ["n2 is broken", "and now?"]


@pytest.mark.parametrize("after", range(2, 7))  # the checkpoint after `summarise` is the third of a turn
async def test_death_between_what_a_node_wrote_and_its_checkpoint_neither_drops_nor_repeats_it(after: int) -> None:
    async with FakeAsyncRedis() as redis:
        saver = DyingSaver(redis, after)
        desk = Desk(world(LOST_ON_N2), saver)
        with pytest.raises(Killed):
            await desk.turn(item("n2 is broken"))
        desk.graph = build_incident_graph(RedisSaver(redis))
        first = await desk.turn(item("n2 is broken"))
        undisturbed = Desk(world(LOST_ON_N2))
        assert first == await undisturbed.turn(item("n2 is broken"))
        assert desk.world.fleet.asked == undisturbed.world.fleet.asked
        await desk.turn(item("and now?", "reply", id="reply-1"))
        assert (await desk.state())["done_items"] == ["mention-1", "reply-1"]


async def test_the_crashed_item_itself_is_continued_not_restarted() -> None:
    desk = Desk(world(LOST_ON_N2))
    _fall_once(desk.world, "reflect")
    with pytest.raises(Killed):
        await desk.turn(item("n2 is broken"))
    report = await desk.turn(item("n2 is broken"))
    assert (report.item, report.outcome) == ("mention-1", "diagnosed")
    assert len(desk.world.fleet.asked) == len({(ask.host, ask.check) for ask in desk.world.fleet.asked})
    assert len((await desk.state())["said"]) == 1


def _fall_once(world: World, stage: str) -> list[str]:
    """Kill the process at a node's first progress update."""
    fell: list[str] = []
    watch = world._watch

    async def die(progress: Any) -> None:
        await watch(progress)
        if progress.stage == stage and not fell:
            fell.append(stage)
            raise Killed

    world._watch = die  # type: ignore[method-assign]  # the fake's own seam
    return fell


async def test_while_a_host_is_waited_for_people_hear_who_it_is_and_what_is_likely_by_then() -> None:
    desk = Desk(world(LOST_ON_N2))
    fleet, watch = desk.world.fleet, desk.world._watch
    fleet.slow = ("n3/smi",)

    async def patient(progress: Progress) -> None:
        await watch(progress)
        if progress.awaited and progress.likely:
            fleet.go.set()

    desk.world._watch = patient  # type: ignore[method-assign]  # the fake's own seam
    report = await desk.turn(item("n2 is broken, n1 n3 n4 hang"))
    told = next(row for row in desk.world.progress if row.likely)
    assert told.awaited == (PendingHosts("n3", "true"),)
    assert told.likely
    assert told.likely.label == report.root_causes[0].label
    assert "n2" in told.likely.says


async def test_stop_ends_the_wave_at_once_and_keeps_what_was_seen() -> None:
    desk = Desk(world())
    stop = item("stop", "stop")
    desk.world.late = {4: stop}
    report = await desk.turn(item("n1 n2 n3 n4 are slow"))
    assert report.outcome == "abstained"
    assert report.headline.startswith("Stopped on request")
    seen = [row for row in desk.world.progress if row.stage == "execute"]
    assert 4 <= len(seen) < len(desk.world.fleet.asked)
    assert (await desk.state())["facts"]
    answer = await desk.turn(stop)
    assert (answer.item, answer.reply) == ("stop-1", "Stopped. Findings are kept; say recheck to check again.")


async def test_news_ends_the_turn_after_the_wave_and_is_used_in_the_next() -> None:
    desk = Desk(world())
    news = item("it was n3 that died", "reply")
    desk.world.late = {2: news}
    first = await desk.turn(item("n1 is slow"))
    assert first.headline.startswith("News came while I was looking")
    desk.world.late = {}
    desk.world.fleet.facts = instead(healthy(*HOSTS), KILLED_ON_N3)
    assert [row.label for row in (await desk.turn(news)).root_causes] == [OOM]


async def test_history_is_a_hypothesis_and_never_a_verdict() -> None:
    desk = Desk(world(history=FakeHistory([Past(LOST, 0.99), Past("GONE.FROM.Taxonomy", 0.9)])))
    report = await desk.turn(item("n2 hangs"))
    assert report.outcome == "no_fault"
    rows = {row["label"]: row for row in (await desk.state())["hypotheses"]}
    assert (rows[LOST]["tier"], rows[LOST]["verdict"]) == ("history", "rejected")


async def test_an_exclusive_check_is_run_last_and_only_when_needed() -> None:
    replays = fact("n2", "nvlink", "nvlink.replay_errors", 900, "gpu0")
    desk = Desk(world(replays, fact("n2", "nccl1", "nccl.busbw_max", 120.0)))
    report = await desk.turn(item("n2 is slow"))
    assert [(row.label, row.hosts) for row in report.root_causes] == [(SLOW_LINK, ("n2",))]
    assert [ask.host for ask in desk.world.fleet.asked if ask.check == "nccl1"] == ["n2"]
    assert desk.world.fleet.asked[-1].check == "nccl1"


async def test_a_fault_that_comes_and_goes_is_found_in_three_looks() -> None:
    desk = Desk(world())
    sick = instead(healthy(*HOSTS), LOST_ON_N2)

    def show(looks: int) -> None:
        desk.world.fleet.facts = sick if looks >= 4 else healthy(*HOSTS)

    desk.world.fleet.before = show
    report = await desk.turn(item("n2 dies now and then, it has fallen off"))
    assert [row.label for row in report.root_causes] == [LOST]
    assert desk.world.fleet.fresh == [False, False, True, True]


async def test_a_model_that_answers_garbage_or_nothing_changes_nothing() -> None:
    report = await Desk(world(LOST_ON_N2, model=FakeModel())).turn(item("it hangs somewhere"))
    assert [row.label for row in report.root_causes] == [LOST]
    assert report.without_model == "garbage"


async def test_a_model_cannot_confirm_what_no_fact_shows() -> None:
    eager = FakeModel(
        found=ReportExtraction(causes=((SLOW_LINK, 1.0), ("MADE.UP.Label", 1.0))),
        thinks=Ideas((Idea("A bent pin", "It is bent.", cites=(0,), standing="supported"),), ("Was the cable moved?",)),
        objects=(Objection("holds"),),
    )
    replays = fact("n2", "nvlink", "nvlink.replay_errors", 900, "gpu0")
    desk = Desk(world(replays, model=eager))
    report = await desk.turn(item("n2 is slow"))
    assert report.root_causes == ()
    assert report.outcome != "diagnosed"
    assert (await desk.state())["stats"]["model_calls"] == len(eager.calls)


async def test_a_model_reads_what_was_blamed_wrongly_here_before() -> None:
    def notes(_: str | None) -> tuple[MistakeNote, ...]:
        return (
            MistakeNote(SLOW_LINK, LOST, "dmesg", 3, 0),
            MistakeNote(SLOW_LINK, LOST, "dmesg", 2, 2),
            MistakeNote("A.B.C", "A.B.D", "", 3, 0),
        )

    model = FakeModel(found=ReportExtraction(causes=((SLOW_LINK, 0.5),)))
    replays = fact("n2", "nvlink", "nvlink.replay_errors", 900, "gpu0")
    ports = replace(world(replays, model=model).ports(), mistakes=notes)
    await run_turn(build_incident_graph(InMemorySaver()), ports, item("n2 is slow"))
    learnt = [line for line in "\n".join(model.shown).splitlines() if line.startswith("learnt here: ")]
    assert set(learnt) == {"learnt here: Before blaming “Slow”: 3 times it was “Lost”. `dmesg` told."}, "the note that helps, and no other"


async def test_a_sure_engine_asks_no_model() -> None:
    model = FakeModel()
    report = await Desk(world(LOST_ON_N2, model=model)).turn(item("a GPU has fallen off on n2"))
    assert report.outcome == "diagnosed"
    assert model.calls == []
    assert report.without_model == ""


async def test_people_can_ask_take_and_close() -> None:
    desk = Desk(world(LOST_ON_N2))
    await desk.turn(item("n2 is broken"))
    looks = len(desk.world.fleet.asked)
    status = await desk.turn(item("status?", "status"))
    assert "4 hosts looked at" in status.reply or "1 hosts looked at" in status.reply
    why = await desk.turn(item("why?", "why"))
    assert "n2 · kernel log · read 9 min ago: kernel.xid 79 gpu3" in why.reply
    assert (await desk.turn(item("", "hand_off"))).outcome == "handed_off"
    assert (await desk.turn(item("", "take"))).reply == "Taken by U1."
    closed = await desk.turn(item("", "close", data={"label": LOST, "root_cause": "loose riser"}))
    assert closed.reply == "Closed: Lost."
    state = await desk.state()
    assert (state["lifecycle"], state["ticket"]["state"], state["ticket"]["true_cause"]) == ("closed", "resolved", "loose riser")
    assert len(desk.world.fleet.asked) == looks
    assert state["done_items"] == ["mention-1", "status-1", "why-1", "hand_off-1", "take-1", "close-1"]


async def test_a_ticket_is_taken_once_and_who_takes_it_over_is_said() -> None:
    desk = Desk(world(LOST_ON_N2))
    await desk.turn(item("n2 is broken"))
    await desk.turn(item("", "hand_off"))
    said = [
        (await desk.turn(item("", "take", id=f"take-{n}").model_copy(update={"user": user}))).reply
        for n, user in enumerate(("U1", "U1", "U2"))
    ]
    assert said == ["Taken by U1.", "", "Taken over by U2 from U1."]
    assert (await desk.state())["ticket"]["taken_by"] == "U2"


async def test_a_ticket_waits_for_others_once_and_goes_on_with_who_had_it() -> None:
    desk = Desk(world(LOST_ON_N2))
    await desk.turn(item("n2 is broken"))
    said = []
    steps: list[tuple[InboxItemKind, str]] = [("wait", "U1"), ("wait", "U2"), ("take", "U1"), ("wait", "U2"), ("take", "U2")]
    for n, (kind, user) in enumerate(steps):
        said.append((await desk.turn(item("", kind, id=f"{kind}-{n}").model_copy(update={"user": user}))).reply)
    assert said == [WAITING_TEXT, "", "U1 continues with it.", WAITING_TEXT, "Taken over by U2 from U1."]
    state = await desk.state()
    assert (state["lifecycle"], state["ticket"]["state"], state["ticket"]["taken_by"]) == ("handed_off", "taken", "U2")


async def test_recheck_looks_again_past_every_cache() -> None:
    desk = Desk(world(LOST_ON_N2))
    await desk.turn(item("n2 is broken"))
    desk.world.fleet.facts = healthy(*HOSTS)
    report = await desk.turn(item("look again", "recheck"))
    assert report.outcome == "no_fault"
    assert True in desk.world.fleet.fresh


async def test_an_incident_of_another_version_is_planned_anew() -> None:
    desk = Desk(world(LOST_ON_N2))
    _fall_once(desk.world, "reflect")
    with pytest.raises(Killed):
        await desk.turn(item("n2 is broken"))
    config: Any = {"configurable": {"thread_id": "inc-1"}}
    await desk.graph.aupdate_state(config, {"version": GRAPH_VERSION - 1}, as_node="conclude")
    report = await desk.turn(item("and?", "reply"))
    assert [row.label for row in report.root_causes] == [LOST]
    state = await desk.state()
    assert state["version"] == GRAPH_VERSION
    assert state["done_items"] == ["mention-1", "reply-1"]


async def test_the_state_of_an_ordinary_incident_is_small_and_plain() -> None:
    desk = Desk(world(LOST_ON_N2, KILLED_ON_N3))
    await desk.turn(
        item("job 4711 hangs with NCCL timeouts on n1 n2 n3 n4, logs below " + "word " * 60), Origin(kind="slack", channel="C1")
    )
    await desk.turn(item("any news?", "reply"))
    state = await desk.state()
    packed = json.dumps(state)
    assert json.loads(packed) == state
    assert len(packed) < 8192, len(packed)
    assert Report.model_validate(state["report"]).model_dump(mode="json", exclude_defaults=True) == state["report"]


async def test_progress_is_told_as_answers_come() -> None:
    desk = Desk(world())
    await desk.turn(item("n1 is slow"))
    stages = [row.stage for row in desk.world.progress]
    assert [stage for n, stage in enumerate(stages) if n == 0 or stages[n - 1] != stage][:4] == ["summarise", "plan", "execute", "reflect"]
    looked = [row for row in desk.world.progress if row.stage == "execute"]
    assert (looked[0].done, looked[0].total) == (1, 7)


async def test_seconds_and_looks_add_up_over_turns() -> None:
    desk = Desk(world())
    await desk.turn(item("n1 is slow"))
    first = (await desk.state())["stats"]
    await desk.turn(item("still", "reply"))
    second = (await desk.state())["stats"]
    assert first["check_seconds"] > 0
    assert second["checks"] > first["checks"]
    assert second["clock"] == "virtual"


def test_node_names_are_the_stored_ones() -> None:
    assert [step.name for step in GRAPH_NODES] == ["summarise", "plan", "execute", "reflect", "conclude"]


@pytest.mark.parametrize("sick", [LOST_ON_N2, KILLED_ON_N3, None], ids=["lost", "killed", "well"])
async def test_a_single_turn_in_memory_ends_as_one_over_redis_does(sick: Fact | None) -> None:
    facts = [sick] if sick else []
    once, told = await run_single_turn(world(*facts).ports(), item(), Origin(kind="terminal"))
    async with FakeAsyncRedis() as redis:
        kept = Desk(world(*facts), RedisSaver(redis))
        assert told == await kept.turn(item(), Origin(kind="terminal"))
        assert once == await kept.state()
