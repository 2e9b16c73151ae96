"""Incident statistics are counted once and outlive the incident; feedback on a diagnosis is stored with its reason."""

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, cast

import pytest
from fakeredis import FakeAsyncRedis

from bot.cli.stats import build_stats_document, render_stats
from bot.incidents.cards import diagnosis, feedback
from bot.incidents.dispatch import metrics as kept_courses
from bot.incidents.dispatch.metrics import (
    Feedback,
    IncidentMetrics,
    IncidentMetricsStore,
    percentile,
    record_metrics,
    summarize_metrics,
    update_metrics,
)
from bot.slack.client import post_message
from graph.report import Report
from graph.state import HandoffTicket, HumanCorrection, Hypothesis, IncidentState, Lifecycle
from tests.support.clock import T0, SetClock
from tests.support.fakes_bot import OPS, TEAM, Behind, slack_side

DEAD, ECC = "GPU.BUS.Fallen_Off_Bus", "GPU.MEMORY.Uncorrectable"


def turned(
    outcome: str = "diagnosed", label: str = DEAD, lifecycle: Lifecycle = "open", ticket: HandoffTicket | None = None
) -> IncidentState:
    report = Report(item="m-1", outcome=cast(Any, outcome), root_causes=(Hypothesis(label=label),) if outcome == "diagnosed" else ())
    state: IncidentState = {"id": "inc-1", "opened_at": T0.isoformat(), "lifecycle": lifecycle, "report": report.model_dump(mode="json")}
    return state if ticket is None else {**state, "ticket": ticket.model_dump(mode="json")}


def at(seconds: float) -> Any:
    return T0 + timedelta(seconds=seconds)


def test_the_first_diagnosis_and_the_first_recovery_count() -> None:
    asked = update_metrics(turned("abstained"), None, at(5))
    assert (asked.diagnosed, asked.recovered) == (None, None)
    found = update_metrics(turned(), asked, at(40))
    again = update_metrics(turned(label=ECC), found, at(90))
    assert (again.diagnosed, again.labels) == (40.0, (ECC,))
    mended = update_metrics(turned(label=ECC, lifecycle="watching"), again, at(600))
    closed = update_metrics(turned(label=ECC, lifecycle="closed"), mended, at(9000))
    assert (closed.recovered, closed.closed) == (600.0, True)


def test_what_a_human_closes_it_with_is_the_truth_and_nothing_broken_is_no_recovery() -> None:
    right = update_metrics(turned(lifecycle="closed", ticket=HandoffTicket(true_label=DEAD)), None, at(100))
    healthy = update_metrics(turned(lifecycle="closed", ticket=HandoffTicket(true_label="NO_FAULT")), None, at(100))
    assert (right.truth, right.recovered) == (DEAD, 100.0)
    assert healthy.recovered is None


def test_a_persons_word_in_the_thread_is_the_truth_as_well() -> None:
    word = HumanCorrection(label=ECC, by="U0ANTON").model_dump(mode="json")
    said = update_metrics({**turned(lifecycle="closed"), "correction": word}, None, at(100))
    assert (said.truth, said.recovered) == (ECC, 100.0)


@pytest.mark.parametrize(
    ("found", "truth", "right"),
    [
        (("INTERCONNECT.IB.Link_Flapping",), "INTERCONNECT.IB", 1),  # “it was the cable”
        (("INTERCONNECT.IB.Link_Flapping",), "INTERCONNECT", 1),
        (("INTERCONNECT.IB.Link_Flapping",), "INTERCONNECT.IB.Link_Flapping", 1),
        (("INTERCONNECT.IB.Link_Flapping",), "INTERCONNECT.IB.Port_Down", 0),
        (("INTERCONNECT.IB.Link_Flapping",), "INTERCONNECT.IB.Link", 0),
        (("INTERCONNECT.IB.Link_Flapping",), "GPU", 0),
        ((DEAD, ECC), "GPU.MEMORY", 1),
        ((), "GPU", 0),
    ],
)
def test_a_branch_that_people_name_is_right_for_the_causes_below_it(found: tuple[str, ...], truth: str, right: int) -> None:
    assert summarize_metrics([IncidentMetrics(T0, "diagnosed", found, 10.0, truth=truth, closed=True)], []).right == right


def test_a_cause_is_counted_once_however_many_devices_show_it_and_stays_after_it_is_gone() -> None:
    causes = [Hypothesis(label=DEAD, devices=(f"n1/gpu{n}",)).model_dump(mode="json") for n in range(4)]
    state = turned()
    state["report"]["root_causes"] = causes
    found = update_metrics(state, None, at(5))
    assert found.labels == (DEAD,)
    assert update_metrics(turned("no_fault"), found, at(90)).labels == (DEAD,)


def test_accuracy_counts_only_what_humans_have_checked() -> None:
    rows = [
        IncidentMetrics(T0, "diagnosed", (DEAD,), 10.0, truth=DEAD, closed=True),
        IncidentMetrics(T0, "diagnosed", (DEAD,), 30.0, truth=ECC, closed=True),
        IncidentMetrics(T0, "diagnosed", (DEAD,), 20.0),
        IncidentMetrics(T0, "abstained"),
    ]
    said = [
        Feedback("inc-1", "T:ANN", True, T0, labels=(DEAD,)),
        Feedback("inc-1", "T:ANN", False, at(5), "wrong_cause", "it was the riser", (DEAD,)),
        Feedback("inc-2", "T:BEN", True, T0, labels=(DEAD,)),
    ]
    document = build_stats_document(summarize_metrics(rows, said))
    assert document["by_label"][DEAD] == {
        "diagnosed": 3,
        "checked": 2,
        "right": 1,
        "accuracy": 0.5,
        "feedback": {"up": 1, "down": 1},
    }
    assert document["seconds_to_diagnosis"] == {"p50": 20.0, "p90": 30.0, "of": 3}
    assert document["seconds_to_recovery"] == {"p50": None, "p90": None, "of": 0}
    assert document["feedback"] == {"up": 1, "down": 1, "reasons": {"wrong_cause": 1}}
    assert (document["checked"], document["right"], document["accuracy"]) == (2, 1, 0.5)
    words = [str(line) for line in render_stats(summarize_metrics(rows, said), 90).renderables]
    assert words[1] == "accuracy: right in 1 of 2 that people closed with their cause (50%)"
    assert words[2] == "to the diagnosis: half within 20 s, nine of ten within 30 s (of 3); to recovery: none yet"


def test_a_healthy_cluster_that_was_called_healthy_is_right_and_one_that_nobody_closed_is_not_counted() -> None:
    rows = [
        IncidentMetrics(T0, "no_fault", (), 5.0, truth="NO_FAULT", closed=True),
        IncidentMetrics(T0, "abstained", truth=ECC),
        IncidentMetrics(T0, "diagnosed", (DEAD,), 9000.0),
    ]
    assert (summarize_metrics(rows, []).checked, summarize_metrics(rows, []).right) == (2, 1)
    words = (
        str(render_stats(summarize_metrics(rows[2:], []), 7).renderables[0]),
        str(render_stats(summarize_metrics(rows[2:], []), 7).renderables[1]),
    )
    assert words == ("1 incident in 7 days: 1 diagnosed", "accuracy: unknown, because no incident was closed with its cause")


@pytest.mark.parametrize(("share", "value"), [(0.5, 5), (0.9, 9), (1.0, 10)])
def test_a_percentile_is_a_value_that_was_measured(share: float, value: float) -> None:
    assert percentile(list(range(1, 11)), share) == value
    assert percentile([], share) is None


async def test_each_turn_is_counted_once_and_the_oldest_go_first() -> None:
    async with FakeAsyncRedis() as redis:
        courses, report = IncidentMetricsStore(redis), Report(item="m-1", outcome="diagnosed")
        for _ in range(2):
            await record_metrics(courses, SetClock(T0), "inc-1", turned(), report)
        assert [row.labels for row in (await courses.list_since(T0))[0]] == [(DEAD,)]
        await redis.zadd("rm:courses:age", {f"old-{n}": n for n in range(kept_courses.MAX_ENTRIES)})
        await courses.save_metrics("inc-2", IncidentMetrics(at(9)))
        assert await redis.zcard("rm:courses:age") == kept_courses.MAX_ENTRIES
        assert (await courses.list_since(at(1)))[0] == [IncidentMetrics(at(9))]


@pytest.fixture
async def bot() -> AsyncIterator[Behind]:
    async with slack_side() as behind:
        yield behind


async def diagnosed(bot: Behind) -> str:
    """Return the ts of a diagnosis card with the feedback buttons."""
    ts = await bot.slack.say("olga", OPS, "@rackmedic job 4711 hangs on gpu-[017-020]")
    await bot.settled()
    incident = await bot.inbox.find_incident(TEAM, OPS, ts)
    assert incident
    report = Report(item="m-1", outcome="diagnosed", root_causes=(Hypothesis(label=DEAD),))
    bot.states[incident] = {**turned(), "id": incident}
    return await post_message(bot.context.client, OPS, ts, diagnosis.render_diagnosis(incident, report))


def value(bot: Behind, card: str, button: str) -> str:
    message = next(message for message in bot.slack.messages(OPS) if message["ts"] == card)
    [row] = [block for block in message["blocks"] if block["type"] == "context_actions"]
    return str(row["elements"][0][button]["value"])


async def test_useful_is_kept_and_thanked_for_in_private(bot: Behind) -> None:
    card = await diagnosed(bot)
    await bot.slack.click("anton", card, feedback.VOTE_ACTION_ID, value=value(bot, card, "positive_button"))
    await bot.settled()
    [said] = (await bot.services.incident_metrics.list_since(T0 - timedelta(days=9999)))[1]
    assert (said.user, said.useful, said.labels) == (f"{TEAM}:U0ANTON", True, (DEAD,))
    assert [message["text"] for message in bot.slack.whispers("anton")] == [feedback.THANKS_TEXT]


async def test_not_useful_asks_why_and_keeps_no_secret(bot: Behind) -> None:
    card = await diagnosed(bot)
    await bot.slack.click("anton", card, feedback.VOTE_ACTION_ID, value=value(bot, card, "negative_button"))
    view = bot.slack.view("anton")
    assert view
    missing = await bot.slack.submit("anton", view["id"], {})
    assert feedback.REASON_BLOCK_ID in missing["errors"]
    words = "it was the riser; password=hunter2hunter2"
    assert await bot.slack.submit("anton", view["id"], {feedback.REASON_BLOCK_ID: "wrong_cause", feedback.WORDS_BLOCK_ID: words}) == {}
    await bot.settled()
    [said] = (await bot.services.incident_metrics.list_since(T0 - timedelta(days=9999)))[1]
    assert (said.useful, said.reason) == (False, "wrong_cause")
    assert "riser" in said.words
    assert "hunter2" not in said.words


async def test_a_click_that_no_card_of_ours_made_is_refused(bot: Behind) -> None:
    card = await diagnosed(bot)
    await bot.slack.click("anton", card, feedback.VOTE_ACTION_ID, value='{"vote":"useful","about":"{}"}')
    await bot.settled()
    assert (await bot.services.incident_metrics.list_since(T0 - timedelta(days=9999)))[1] == []
