"""Cards in the thread: the living one keeps its pace and ends, a report is posted once whatever happens, a ticket follows its owner."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
from fakeredis import FakeAsyncRedis

from bot.policy.channels import bindings
from bot.slack.client import Throttle, slack_client
from bot.slack.outgoing.posts import PostedCards
from bot.slack.outgoing.progress import ProgressCards
from bot.slack.outgoing.reports import SlackBoard
from bot.slack.people import CannotTell, People
from bot.tasks import Background
from deploy.sandbox.slack import SlackSandbox
from graph.ports import Progress
from graph.state import Evidence, Hypothesis, Incident, Origin, Report, SharedCause
from tests.support.fakes_bot import ACME, OPS, TEAM
from tools.evidence import MemoryEvidence
from tools.inventory.hosts import ChannelRow

NOW = datetime(2026, 5, 20, 3, 10, tzinfo=UTC)
FELL = Hypothesis(
    label="GPU.BUS.Fell_Off",
    hosts=("gpu-017",),
    devices=("gpu-017/gpu5",),
    verdict="confirmed",
    confidence=0.97,
    evidence=(Evidence(host="gpu-017", check="dmesg", line="NVRM: Xid 79", time=NOW),),
)
REPORT = Report(item="T.C.1", outcome="diagnosed", headline="GPU 5 of gpu-017 fell off the bus", root_causes=(FELL,))


@dataclass
class Time:
    """Seconds that pass only by waiting."""

    now: float = 1000.0
    waits: list[float] = field(default_factory=list)

    def seconds(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


@dataclass
class Place:
    slack: SlackSandbox
    cards: PostedCards
    evidence: MemoryEvidence
    time: Time
    thread: str
    background: Background = field(default_factory=Background)
    boards: list[SlackBoard] = field(default_factory=list)

    bound: Mapping[str, ChannelRow] = field(default_factory=dict)

    def board(self) -> SlackBoard:
        """A board as another process has it: nothing shared but Redis and Slack."""
        client = slack_client(self.slack.bot_token, self.slack.api_url)
        throttle = Throttle(45, 4, seconds=self.time.seconds, sleep=self.time.sleep)
        living = ProgressCards(client, self.cards, self.origin, self.background, throttle=throttle, pause=self.time.sleep)
        return SlackBoard(client, self.cards, living, People(client), self.origin, self.evidence, self.bound)

    async def origin(self, incident: str) -> Origin | None:
        if incident == "i7":
            return Origin(kind="slack", team=TEAM, channel=ACME, thread_ts="1700000000.000100")
        return Origin(kind="slack", team=TEAM, channel=OPS, thread_ts=self.thread) if incident in ("i1", "i9") else None

    def state(self, **more: Any) -> Incident:
        origin = Origin(kind="slack", team=TEAM, channel=OPS, thread_ts=self.thread)
        return {"id": "i1", "origin": origin.model_dump(), "lifecycle": "open", **more}  # type: ignore[typeddict-item]  # a spread

    def said(self) -> list[dict[str, Any]]:
        return [message for message in self.slack.thread(OPS, self.thread) if message.get("bot_id")]

    def calls(self, method: str) -> int:
        return int(self.slack.stats()["calls"].get(method, 0))


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with SlackSandbox() as slack:
        thread = await slack.say("olga", OPS, "job 4711 hangs")
        place = Place(slack, PostedCards(FakeAsyncRedis()), MemoryEvidence(), Time(), thread)
        yield place
        await place.background.aclose()


async def news(board: SlackBoard, n: int) -> None:
    await board.progress(Progress("i1", "execute", f"asking gpu-{n:03}", done=n, total=500))


async def test_the_first_news_post_the_card_and_later_news_edit_it(place: Place) -> None:
    board = place.board()
    await board.progress(Progress("i1", "summarise", "NCCL timeout on gpu-017"))
    await place.background.idle()
    await news(board, 3)
    await place.background.idle()
    [card] = place.said()
    assert "NCCL timeout on gpu-017" in str(card["blocks"])
    assert "3 of 500 checks" in str(card["blocks"])
    assert (place.calls("chat.postMessage"), place.calls("chat.update")) == (1, 1)


async def test_a_flood_of_news_is_painted_at_slacks_pace_and_the_latest_wins(place: Place) -> None:
    board = place.board()
    for n in range(400):
        await news(board, n)
    await place.background.idle()
    for n in range(400, 500):
        await news(board, n)
    await place.background.idle()
    assert "499 of 500 checks" in str(place.said()[0]["blocks"])
    assert place.calls("chat.update") <= 2


async def test_the_end_of_a_turn_is_always_painted_and_before_its_report(place: Place) -> None:
    board = place.board()
    await news(board, 1)
    await place.background.idle()
    for n in range(50):
        await news(board, n)
    await board.report("i1", place.state(), REPORT)
    await place.background.idle()
    card, report = place.said()
    assert "✅ Done" in str(card["blocks"])
    assert "fell off the bus" in str(report["blocks"])
    assert place.time.now == 1000.0


async def test_another_process_edits_the_same_card_and_finishes_it(place: Place) -> None:
    await news(place.board(), 1)
    await place.background.idle()
    await news(place.board(), 2)
    await place.background.idle()
    await place.board().report("i1", place.state(), REPORT)
    assert len(place.said()) == 2
    assert "✅ Done" in str(place.said()[0]["blocks"])


async def test_a_first_card_does_not_wait_for_edits_of_others(place: Place) -> None:
    board = place.board()
    for n in range(20):
        await news(board, n)
        await place.background.idle()
    began = place.time.now
    await board.progress(Progress("i9", "queued", "On it."))
    await place.background.idle()
    assert place.time.now == began
    assert len(place.said()) == 2


async def test_the_greeting_of_a_slower_process_does_not_overwrite_news(place: Place) -> None:
    await news(place.board(), 7)
    await place.background.idle()
    await place.board().progress(Progress("i1", "queued", "On it."))
    await place.background.idle()
    assert "7 of 500" in str(place.said()[0]["blocks"])


async def test_a_card_that_a_dead_process_never_posted_is_posted_after_a_while(place: Place) -> None:
    await place.cards.claim("i1", "living")
    await news(place.board(), 7)
    await place.background.idle()
    assert place.time.waits == [1.0] * 5
    assert len(place.said()) == 1


async def test_a_card_that_slack_refuses_is_left_alone_and_the_report_still_comes(place: Place) -> None:
    board = place.board()
    await news(board, 1)
    await place.background.idle()
    await place.cards.set("i1", "living", "1.000001")
    for n in range(10):
        await news(board, n)
        await place.background.idle()
    assert place.calls("chat.update") == 3
    await board.report("i1", place.state(), REPORT)
    assert "fell off the bus" in str(place.said()[-1]["blocks"])


async def test_a_rate_limit_is_waited_out(place: Place) -> None:
    place.slack.rates.fail_next("chat.postMessage", 1, 1)
    await place.board().report("i1", place.state(), REPORT)
    assert len(place.said()) == 1


async def test_a_report_asked_for_twice_is_posted_once(place: Place) -> None:
    for _ in range(2):
        await place.board().report("i1", place.state(), REPORT)
    assert len(place.said()) == 1


async def test_a_crash_after_posting_is_found_in_the_thread_and_not_posted_again(place: Place) -> None:
    await place.board().report("i1", place.state(), REPORT)
    await place.cards.set("i1", "report:T.C.1", "posting")
    await place.board().report("i1", place.state(), REPORT)
    assert len(place.said()) == 1
    assert await place.cards.get("i1", "report:T.C.1") == place.said()[0]["ts"]


async def test_a_crash_before_posting_is_made_good(place: Place) -> None:
    await place.cards.set("i1", "report:T.C.1", "posting")
    await place.board().report("i1", place.state(), REPORT)
    assert len(place.said()) == 1


async def test_a_report_carries_its_item_as_metadata_and_mentions_nobody(place: Place) -> None:
    loud = REPORT.model_copy(update={"headline": "<!channel> <@U0OLGA>", "next_step": "<!here> see https://evil.example"})
    await place.board().report("i1", place.state(), loud)
    [message] = place.said()
    assert message["metadata"] == {"event_type": "rackmedic_report", "event_payload": {"item": "T.C.1"}}
    assert not any(sign in str(message["blocks"]) + message["text"] for sign in ("<!", "<@", "https://"))


@pytest.mark.parametrize("may", [True, False])
async def test_a_cause_that_another_incident_keeps_is_pointed_to_with_a_link_only_where_it_may_be_followed(place: Place, may: bool) -> None:
    place.bound = bindings((ChannelRow(channel=OPS, groups=() if may else ("train",)), ChannelRow(channel=ACME)))
    theirs = REPORT.model_copy(update={"shared": (SharedCause(label=FELL.label, incident="i7", hosts=("gpu-017",)),), "next_step": ""})
    await place.board().report("i1", place.state(), theirs)
    [message] = place.said()
    [line] = [block["text"]["text"] for block in message["blocks"] if "worked on in" in str(block)]
    where = f"<https://app.slack.com/client/{TEAM}/{ACME}/thread/{ACME}-1700000000.000100|another thread>" if may else "another thread"
    assert line == f"↪ This is worked on in {where}, and decided there. I look again here when that is over."


async def test_of_several_causes_the_hosts_are_named_that_another_incident_keeps(place: Place) -> None:
    other = FELL.model_copy(update={"label": "GPU.MEMORY.Broken", "hosts": ("gpu-018", "gpu-019")})
    rows = (SharedCause(label=other.label, incident="i7", hosts=other.hosts),)
    await place.board().report("i1", place.state(), REPORT.model_copy(update={"root_causes": (FELL, other), "shared": rows}))
    assert "↪ *gpu-[018-019]* is worked on in another thread" in str(place.said()[0]["blocks"])


async def test_a_channel_that_became_shared_gets_no_diagnosis(place: Place) -> None:
    place.slack.share(OPS)
    await place.board().report("i1", place.state(), REPORT)
    [message] = place.said()
    assert "shared with another organisation" in message["text"]
    assert "gpu-017" not in str(message)


async def test_without_knowing_who_can_read_along_nothing_is_posted(place: Place) -> None:
    place.slack.rates.fail_next("conversations.info", 9, 1)
    board = SlackBoard(
        slack_client(place.slack.bot_token, place.slack.api_url, tries=0),
        place.cards,
        ProgressCards(slack_client(place.slack.bot_token, place.slack.api_url), place.cards, place.origin, place.background),
        People(slack_client(place.slack.bot_token, place.slack.api_url, tries=0)),
        place.origin,
        place.evidence,
    )
    with pytest.raises(CannotTell):
        await board.report("i1", place.state(), REPORT)
    assert place.said() == []


def ticket(**more: str) -> dict[str, Any]:
    return {
        "ticket": {"state": "open", "owner": "provider", "summary": "Xid 79 on gpu-017", **more},
        "report": REPORT.model_dump(mode="json"),
    }


async def test_a_hand_off_posts_the_ticket_and_the_evidence_once(place: Place) -> None:
    sha = await place.evidence.put("i1", "raw output of dmesg")
    cited = FELL.model_copy(update={"evidence": (FELL.evidence[0].model_copy(update={"sha256": sha}),)})
    handed = REPORT.model_copy(update={"outcome": "handed_off", "reply": "Handed over to a human.", "root_causes": (cited,)})
    state = place.state(**(ticket() | {"report": handed.model_dump(mode="json")}))
    for _ in range(2):
        await place.board().report("i1", state, handed)
    reply, card, file = place.said()
    assert reply["text"] == "Handed over to a human."
    assert "waiting for somebody" in str(card["blocks"])
    [uploaded] = file["files"]
    assert uploaded["name"] == "i1-evidence.txt"
    assert b"raw output of dmesg" in (place.slack.ws.files.get(uploaded["id"]).content or b"")


async def test_a_ticket_card_follows_its_owner_by_name_and_mentions_nobody(place: Place) -> None:
    board = place.board()
    await board.report("i1", place.state(**ticket()), REPORT)
    taken = Report(item="2", outcome="handed_off", reply="Taken by U0ANTON.")
    await board.report("i1", place.state(**ticket(state="taken", taken_by="U0ANTON")), taken)
    texts = [message["text"] for message in place.said()]
    assert "Taken by anton." in texts
    assert any("anton has it" in text for text in texts)
    assert not any("waiting for somebody" in str(message) for message in place.said())
    assert "<@" not in str([message.get("blocks") for message in place.said()])


async def test_a_hand_off_stands_although_the_evidence_cannot_be_uploaded(place: Place) -> None:
    place.slack.ws.app.scopes = frozenset({"chat:write", "channels:read", "channels:history", "users:read"})
    await place.board().report("i1", place.state(**ticket()), REPORT)
    assert len(place.said()) == 2


async def test_a_timer_that_changed_nothing_is_silent_and_a_reminder_asks_again(place: Place) -> None:
    def timer(why: str) -> dict[str, Any]:
        return {"item": {"kind": "timer", "data": {"why": why}}}

    asked = REPORT.model_copy(update={"questions": ("Which hosts?",)})
    await place.board().report("i1", place.state(**timer("auto_close")), asked.model_copy(update={"item": "t1"}))
    assert place.said() == []
    await place.board().report("i1", place.state(**timer("remind")), asked.model_copy(update={"item": "t2"}))
    [message] = place.said()
    assert "Which hosts?" in str(message["blocks"])


async def test_incidents_of_the_terminal_are_passed_over(place: Place) -> None:
    board = place.board()
    await board.progress(Progress("i2", "execute", "x"))
    await place.background.idle()
    await board.report("i2", {"id": "i2"}, REPORT)
    await board.report("i2", {"id": "i2", "origin": Origin(kind="terminal").model_dump()}, REPORT)
    assert place.calls("chat.postMessage") == 0


async def test_a_closed_incidents_cards_expire_and_an_open_ones_do_not() -> None:
    redis = FakeAsyncRedis()
    cards = PostedCards(redis)
    await cards.set("i1", "living", "1.0")
    await cards.keep("i1", closed=True)
    assert await redis.ttl("rm:incident:{i1}:cards") > 29 * 86_400
    await cards.keep("i1", closed=False)
    assert await redis.ttl("rm:incident:{i1}:cards") == -1


async def test_a_throttle_lets_a_burst_pass_and_then_keeps_its_rate() -> None:
    time = Time()
    throttle = Throttle(60, 3, seconds=time.seconds, sleep=time.sleep)
    for _ in range(5):
        await throttle.turn()
    assert time.waits == [1.0, 1.0]
    time.now += 100
    for _ in range(4):
        await throttle.turn()
    assert time.waits == [1.0, 1.0, 1.0]
