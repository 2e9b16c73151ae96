"""Cards in the thread: the living card's pace and end, each report posted once, the ticket card follows its owner."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from fakeredis import FakeAsyncRedis

from bot.incidents.dispatch.lease import Leases
from bot.incidents.publishing.abandoned_messages import AbandonedMessageSweeper
from bot.incidents.publishing.progress_updates import ProgressUpdates
from bot.incidents.publishing.report_attachments import ReportAttachments
from bot.incidents.publishing.report_publisher import SlackReportPublisher
from bot.incidents.publishing.status_messages import StatusMessages
from bot.policy.channels import build_channel_bindings
from bot.reports.drawing_source import DrawingSource
from bot.slack.client import Throttle, build_slack_client
from bot.slack.people import People, SlackAnswerMissing
from bot.slack.posted_messages import PostedCards
from bot.tasks import BackgroundTasks
from deploy.sandbox.slack import SlackSandbox
from graph.context import LikelyDiagnosis, PendingHosts, Progress
from graph.report import AttachedChart, AttachedOutput, CauseOwnedElsewhere, PlannedAction, Report
from graph.state import Evidence, Hypothesis, InboxItem, IncidentCosts, IncidentState, Milestone, Origin, Remediation
from tests.support.clock import T0, SetClock
from tests.support.fakes_bot import ACME, OPS, TEAM, living_messages
from tools.evidence import MemoryEvidence
from tools.fact import Fact
from tools.inventory.inventory import ChannelRow

pytestmark = pytest.mark.slow


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
    """Time that advances only by sleeping."""

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
    redis: FakeAsyncRedis
    cards: PostedCards
    evidence: MemoryEvidence
    time: Time
    thread: str
    background: BackgroundTasks = field(default_factory=BackgroundTasks)
    clock: SetClock = field(default_factory=SetClock)
    states: dict[str, IncidentState] = field(default_factory=dict)
    tries: int = 3

    bound: Mapping[str, ChannelRow] = field(default_factory=dict)

    def board(self) -> SlackReportPublisher:
        """Return a report publisher as another process has it, sharing only Redis and Slack."""
        client = build_slack_client(self.slack.bot_token, self.slack.api_url, tries=self.tries)
        throttle = Throttle(45, 4, seconds=self.time.seconds, sleep=self.time.sleep)
        updates, people = ProgressUpdates(self.messages(), self.background, throttle=throttle), People(client)
        attachments = ReportAttachments(client, self.cards, self.evidence, DrawingSource(self.evidence, people.get_name))
        return SlackReportPublisher(client, self.cards, updates, people, self.origin, self.evidence, self.stored, attachments, self.bound)

    def messages(self) -> StatusMessages:
        client = build_slack_client(self.slack.bot_token, self.slack.api_url, tries=self.tries)
        return living_messages(client, self.redis, People(client), self.origin, self.clock, self.background, self.stored, self.bound)

    def forsaken(self) -> AbandonedMessageSweeper:
        """Return the sweeper of abandoned messages."""
        return AbandonedMessageSweeper(self.messages(), self.board().retry_pending_edits)

    async def stored(self, incident: str) -> IncidentState:
        return self.states.get(incident, IncidentState())

    async def origin(self, incident: str) -> Origin | None:
        if incident == "i7":
            return Origin(kind="slack", team=TEAM, channel=ACME, thread_ts="1700000000.000100")
        return Origin(kind="slack", team=TEAM, channel=OPS, thread_ts=self.thread) if incident in ("i1", "i9") else None

    def state(self, **more: Any) -> IncidentState:
        origin = Origin(kind="slack", team=TEAM, channel=OPS, thread_ts=self.thread)
        item = {"id": "T.C.1", "kind": "mention", "incident": "i1", "at": NOW.isoformat()}
        stored = {"id": "i1", "origin": origin.model_dump(), "item": item, "report": REPORT.model_dump(mode="json"), "lifecycle": "open"}
        return cast(IncidentState, {**stored, **more})

    def said(self) -> list[dict[str, Any]]:
        return [message for message in self.slack.thread(OPS, self.thread) if message.get("bot_id")]

    def calls(self, method: str) -> int:
        return int(self.slack.stats()["calls"].get(method, 0))


@pytest.fixture
async def place() -> AsyncIterator[Place]:
    async with SlackSandbox() as slack:
        thread = await slack.say("olga", OPS, "job 4711 hangs")
        redis = FakeAsyncRedis()
        place = Place(slack, redis, PostedCards(redis), MemoryEvidence(), Time(), thread)
        yield place
        await place.background.aclose()


async def news(board: SlackReportPublisher, n: int) -> None:
    await board.publish_progress(Progress("i1", "execute", f"asking gpu-{n:03}", done=n, total=500))


async def test_the_first_news_post_the_card_and_later_news_edit_it(place: Place) -> None:
    board = place.board()
    await board.publish_progress(Progress("i1", "summarise", "NCCL timeout on gpu-017"))
    await place.background.wait_until_idle()
    await news(board, 3)
    await place.background.wait_until_idle()
    [card] = place.said()
    assert "NCCL timeout on gpu-017" in str(card["blocks"])
    assert "3 of 500 checks" in str(card["blocks"])
    assert (place.calls("chat.postMessage"), place.calls("chat.update")) == (1, 1)


async def test_a_flood_of_news_is_painted_at_slacks_pace_and_the_latest_wins(place: Place) -> None:
    board = place.board()
    for n in range(400):
        await news(board, n)
    await place.background.wait_until_idle()
    for n in range(400, 500):
        await news(board, n)
    await place.background.wait_until_idle()
    assert "499 of 500 checks" in str(place.said()[0]["blocks"])
    assert place.calls("chat.update") <= 2


async def test_the_end_of_a_turn_is_painted_at_once_and_is_its_report(place: Place) -> None:
    board = place.board()
    await news(board, 1)
    await place.background.wait_until_idle()
    for n in range(50):
        await news(board, n)
    await board.publish_report("i1", place.state(), REPORT)
    await place.background.wait_until_idle()
    [message] = place.said()
    assert "fell off the bus" in str(message["blocks"])
    assert "Looking at the hosts" not in str(message["blocks"])
    assert place.time.now == 1000.0


async def test_another_process_edits_the_same_card_and_finishes_it(place: Place) -> None:
    await news(place.board(), 1)
    await place.background.wait_until_idle()
    await news(place.board(), 2)
    await place.background.wait_until_idle()
    await place.board().publish_report("i1", place.state(), REPORT)
    [message] = place.said()
    assert "fell off the bus" in str(message["blocks"])


async def test_a_first_card_does_not_wait_for_edits_of_others(place: Place) -> None:
    board = place.board()
    for n in range(20):
        await news(board, n)
        await place.background.wait_until_idle()
    began = place.time.now
    await board.publish_progress(Progress("i9", "queued", "On it."))
    await place.background.wait_until_idle()
    assert place.time.now == began
    assert len(place.said()) == 2


async def test_the_greeting_of_a_slower_process_does_not_overwrite_news(place: Place) -> None:
    await news(place.board(), 7)
    await place.background.wait_until_idle()
    await place.board().publish_progress(Progress("i1", "queued", "On it."))
    await place.background.wait_until_idle()
    assert "7 of 500" in str(place.said()[0]["blocks"])


async def test_a_card_that_a_dead_process_never_posted_is_posted_after_a_while(place: Place) -> None:
    await place.cards.claim("i1", "living")
    await news(place.board(), 7)
    await place.background.wait_until_idle()
    assert len(place.said()) == 1


async def test_a_message_whose_posting_process_died_right_after_is_found_again(place: Place) -> None:
    await news(place.board(), 7)
    await place.background.wait_until_idle()
    await place.cards.set("i1", "living", "posting")
    await place.board().publish_report("i1", place.state(), REPORT)
    [message] = place.said()
    assert "fell off the bus" in str(message["blocks"])


async def test_a_deleted_message_is_posted_again(place: Place) -> None:
    board = place.board()
    await news(board, 1)
    await place.background.wait_until_idle()
    place.slack.workspace.delete(place.slack.workspace.message(OPS, place.said()[0]["ts"]))
    await board.publish_report("i1", place.state(), REPORT)
    [message] = place.said()
    assert "fell off the bus" in str(message["blocks"])


async def test_a_process_that_has_lost_its_turn_paints_over_nothing(place: Place) -> None:
    slow = place.board()
    await news(slow, 1)
    await place.background.wait_until_idle()
    await place.board().publish_report("i1", place.state(), REPORT)
    await news(slow, 2)
    await place.background.wait_until_idle()
    assert "fell off the bus" in str(place.said()[0]["blocks"])
    assert "2 of 500" not in str(place.said()[0]["blocks"])


async def test_a_sweep_settles_a_dead_processes_progress_message(place: Place) -> None:
    await news(place.board(), 3)
    await place.background.wait_until_idle()
    sweeper = place.forsaken()
    assert await sweeper.sweep() == 0  # its process may still be running
    place.clock.go(minutes=1)
    lease = await Leases(place.redis, place.clock).acquire("i1")
    assert await sweeper.sweep() == 0  # its process still runs
    assert lease
    await lease.release()
    assert await sweeper.sweep() == 1
    [message] = place.said()
    assert "stopped in the middle" in str(message["blocks"])
    assert await sweeper.sweep() == 0
    await place.board().publish_report("i1", place.state(), REPORT)
    assert "fell off the bus" in str(place.said()[0]["blocks"])
    assert await place.redis.zcard("rm:living") == 0


async def test_a_settled_message_that_died_over_looking_again_shows_what_was_found(place: Place) -> None:
    board = place.board()
    place.states["i1"] = place.state()
    await board.publish_report("i1", place.states["i1"], REPORT)
    await news(board, 3)
    await place.background.wait_until_idle()
    place.clock.go(minutes=1)
    assert await place.forsaken().sweep() == 1
    [message] = place.said()
    assert "3 of 500" not in str(message["blocks"])
    assert "fell off the bus" in str(message["blocks"])


async def test_looking_again_is_shown_above_what_was_found(place: Place) -> None:
    board = place.board()
    place.states["i1"] = place.state()
    await board.publish_report("i1", place.states["i1"], REPORT)
    await news(board, 3)
    await place.background.wait_until_idle()
    [message] = place.said()
    assert "3 of 500 checks" in str(message["blocks"])
    assert "fell off the bus" in str(message["blocks"])


async def test_an_answer_is_a_new_message_and_the_diagnosis_stays_above(place: Place) -> None:
    board = place.board()
    await board.publish_report("i1", place.state(), REPORT)
    asked = place.state(item={"id": "T.C.2", "kind": "why", "incident": "i1", "at": NOW.isoformat()})
    await board.publish_report("i1", asked, REPORT.model_copy(update={"item": "T.C.2", "reply": "Because of Xid 79."}))
    above, below = place.said()
    assert "fell off the bus" in str(above["blocks"])
    assert below["text"] == "Because of Xid 79."


async def test_an_answer_comes_although_slack_takes_no_edit_now_and_the_message_above_follows(place: Place) -> None:
    place.states["i1"] = place.state()
    await place.board().publish_report("i1", place.states["i1"], REPORT)
    await news(place.board(), 3)
    await place.background.wait_until_idle()
    place.tries = 0
    place.slack.rates.fail_next("chat.update", 1, 1)
    await place.board().publish_report("i1", asked(place), REPORT.model_copy(update={"item": "T.C.2", "reply": "Because of Xid 79."}))
    above, below = place.said()
    assert below["text"] == "Because of Xid 79."
    assert "3 of 500 checks" in str(above["blocks"])
    place.clock.go(minutes=1)
    assert await place.forsaken().sweep() == 1
    assert "3 of 500 checks" not in str(place.said()[0]["blocks"])


async def test_an_answer_does_not_wait_for_the_edit_of_the_message_above(place: Place) -> None:
    place.states["i1"] = place.state()
    board = place.board()
    await board.publish_report("i1", place.states["i1"], REPORT)
    async with place.cards.hold_lock("i1", "living"):
        await board.publish_report("i1", asked(place), REPORT.model_copy(update={"item": "T.C.2", "reply": "Because of Xid 79."}))
    assert place.said()[1]["text"] == "Because of Xid 79."
    place.clock.go(minutes=1)
    assert await place.forsaken().sweep() == 1


def mended(place: Place, lifecycle: str, n: int) -> tuple[IncidentState, Report]:
    """Return state and report of the n-th item: a remediation passes, and later the incident closes."""
    fix = Remediation(
        id="l1", label=FELL.label, target="gpu-017", proven="apr-1", waiting_for="proof", outcome="cured" if lifecycle == "closed" else ""
    )
    item = {"id": f"a{n}", "kind": "action_result", "incident": "i1", "at": NOW.isoformat()}
    report = REPORT.model_copy(update={"item": f"a{n}", "reply": "It passes."})
    state = place.state(item=item, ladders=[fix.model_dump(mode="json")], lifecycle=lifecycle, report=report.model_dump(mode="json"))
    place.states["i1"] = state
    return state, report


def no_edits(place: Place, times: int) -> None:
    """Let Slack refuse this many edits, and switch off the client's retries."""
    place.tries = 0
    place.slack.rates.fail_next("chat.update", times, 1)


async def test_an_end_is_told_although_slack_takes_no_edit_now_and_its_message_follows(place: Place) -> None:
    await place.board().publish_report("i1", *mended(place, "watching", 1))
    [told] = place.said()
    no_edits(place, 2)
    await place.board().publish_report("i1", *mended(place, "closed", 2))
    assert place.said()[0]["blocks"] == told["blocks"]
    no_edits(place, 1)
    place.clock.go(minutes=1)
    assert await place.forsaken().sweep() == 1
    assert place.said()[0]["blocks"] == told["blocks"], "refused once more, and not forgotten"
    place.clock.go(minutes=1)
    assert await place.forsaken().sweep() == 1
    [told_anew] = place.said()
    assert (told_anew["ts"], told_anew["blocks"] == told["blocks"]) == (told["ts"], False)
    place.clock.go(minutes=1)
    assert await place.forsaken().sweep() == 0


async def test_a_pending_edit_survives_the_next_turn(place: Place) -> None:
    await place.board().publish_report("i1", *mended(place, "watching", 1))
    no_edits(place, 2)
    await place.board().publish_report("i1", *mended(place, "closed", 2))
    await place.board().publish_report(
        "i1", asked(place, ladders=place.states["i1"]["ladders"]), REPORT.model_copy(update={"reply": "Because."})
    )
    place.clock.go(minutes=1)
    assert await place.forsaken().sweep() == 1


async def test_a_deleted_message_does_not_block_the_end(place: Place) -> None:
    await place.board().publish_report("i1", *mended(place, "watching", 1))
    [told] = place.said()
    await build_slack_client(place.slack.bot_token, place.slack.api_url).chat_delete(channel=OPS, ts=told["ts"])
    await place.board().publish_report("i1", *mended(place, "closed", 2))
    place.clock.go(minutes=1)
    assert await place.forsaken().sweep() == 0


def asked(place: Place, **more: Any) -> IncidentState:
    return place.state(item={"id": "T.C.2", "kind": "ask", "incident": "i1", "at": NOW.isoformat(), **more})


async def test_a_question_that_needs_no_answer_gets_none(place: Place) -> None:
    await place.board().publish_report("i1", asked(place), REPORT.model_copy(update={"item": "T.C.2"}))
    assert [message for message in place.said() if (message.get("metadata") or {}).get("event_payload") == {"item": "T.C.2"}] == []


async def test_requested_full_output_is_uploaded_once_as_a_file(place: Place) -> None:
    sha = await place.evidence.put_text("i1", "raw output of dmesg")
    shown = (AttachedOutput(name="gpu-017-dmesg.txt", sha256=sha), AttachedOutput(name="gone.txt", sha256="0" * 64))
    answer = REPORT.model_copy(update={"item": "T.C.2", "reply": "gpu-017: the full output as a file", "shown": shown})
    for _ in range(2):
        await place.board().publish_report("i1", asked(place), answer)
    files = [file for message in place.said() for file in message.get("files") or []]
    assert [file["name"] for file in files] == ["gpu-017-dmesg.txt"]
    assert b"raw output of dmesg" in (place.slack.workspace.files.get(files[0]["id"]).content or b"")


def over_in(place: Place) -> list[str]:
    return [str(row["text"]) for row in place.said() if (row.get("metadata") or {}).get("event_type") == "rackmedic_over"]


@pytest.mark.parametrize(
    ("seconds", "more", "heard"),
    [
        (59.0, {}, 0),
        (61.0, {}, 1),
        (61.0, {"actions": (PlannedAction(label="GPU.X", rung=0, remedy="gpu_reset", target="gpu-017", via="gpu-017"),)}, 0),
    ],
)
async def test_a_long_look_that_puts_nothing_up_ends_with_a_short_message_once(
    place: Place, seconds: float, more: dict[str, Any], heard: int
) -> None:
    board = place.board()
    stats = IncidentCosts(hosts=4, checks=88, makespan_seconds=seconds).model_dump(mode="json")
    for _ in range(2):
        await board.publish_report("i1", place.state(stats=stats), REPORT.model_copy(update=more))
    assert len(over_in(place)) == heard
    assert "<@" not in "".join(over_in(place)), "whoever asked follows the thread"


async def test_numbers_are_a_picture_beside_the_answer_once(place: Place) -> None:
    facts = [Fact("smi", "gpu.temp.core", 40 + gpu, f"gpu{gpu}", host="gpu-017") for gpu in range(8)]
    sha = await place.evidence.put_facts("i1", facts)
    wanted = (AttachedChart(key="gpu.temp.core", hosts=("gpu-017", "gpu-018")),)
    answer = REPORT.model_copy(update={"item": "T.C.2", "reply": "core temperature", "pictures": wanted})
    for _ in range(2):
        await place.board().publish_report("i1", {**asked(place), "facts": sha}, answer)
    file, rows = files_in(place)
    assert (file["name"], file["mimetype"]) == ("gpu.temp.core.png", "image/png")
    assert content(place, file).startswith(b"\x89PNG")
    assert file["alt_txt"].startswith("core temperature of 1 host: 40 to 47 C")
    assert "alt_txt" not in rows
    assert (rows["name"], content(place, rows).splitlines()[-1].split()[0]) == ("gpu.temp.core.txt", b"gpu-018")


def files_in(place: Place) -> list[dict[str, Any]]:
    return [file for message in place.said() for file in message.get("files") or []]


def content(place: Place, file: dict[str, Any]) -> bytes:
    return place.slack.workspace.files.get(file["id"]).content or b""


async def test_a_bandwidth_chart_is_shown_unasked_once_per_measurement(place: Place) -> None:
    shown = (AttachedChart(kind="bandwidth", asked=False),)
    for number, speed in enumerate((190.5, 190.5, 470.0)):
        facts = [Fact("nccl1", "nccl.busbw_at", speed, host="gpu-017", attrs={"size": size << 30}) for size in (1, 8)]
        sha = await place.evidence.put_facts("i1", facts)
        report = REPORT.model_copy(update={"item": f"T.C.{number}", "pictures": shown})
        await place.board().publish_report("i1", place.state(facts=sha), report)
    assert [file["name"] for file in files_in(place)] == ["bandwidth.png", "bandwidth.txt"] * 2
    assert b"470" in content(place, files_in(place)[-1])


async def test_the_number_that_decided_is_shown_once_and_again_where_it_accuses_another(place: Place) -> None:
    shown = (AttachedChart(key="gpu.temp.core", hosts=("gpu-017", "gpu-018"), asked=False),)
    for number, host in enumerate(("gpu-017", "gpu-017", "gpu-018")):
        facts = [Fact("smi", "gpu.temp.core", 80 + number + gpu, f"gpu{gpu}", host=host) for gpu in range(8)]
        sha = await place.evidence.put_facts("i1", facts)
        roots = tuple(row.model_copy(update={"hosts": (host,)}) for row in REPORT.root_causes)
        report = REPORT.model_copy(update={"item": f"T.C.{number}", "pictures": shown, "root_causes": roots})
        await place.board().publish_report("i1", place.state(facts=sha), report)
    assert [file["name"] for file in files_in(place)] == ["gpu.temp.core.png", "gpu.temp.core.txt"] * 2


async def test_tree_and_timeline_are_drawn_from_what_is_stored(place: Place) -> None:
    wanted = (AttachedChart(kind="timeline"), AttachedChart(kind="walk"))
    answer = REPORT.model_copy(update={"item": "T.C.2", "reply": "here", "pictures": wanted})
    said = [{"user": "U0OLGA", "text": "any news?", "at": NOW.isoformat()}]
    walk = {"log": [["GPU.BUS.Fallen_Off_Bus", "confirmed", "Xid 79"]]}
    await place.board().publish_report("i1", {**asked(place), "said": said, "walk": walk, "opened_at": NOW.isoformat()}, answer)
    assert [file["name"] for file in files_in(place)] == ["timeline.png", "timeline.txt", "tree.png", "tree.txt"]
    assert b"olga" in content(place, files_in(place)[1]), "people are called by their names"


async def test_the_end_of_an_incident_in_which_something_was_done_has_its_timeline_once(place: Place) -> None:
    marks = [Milestone(at=NOW, kind=kind, says=kind).to_row() for kind in ("found", "ran", "proved", "closed")]
    for number in range(2):
        quiet = place.state(lifecycle="closed", milestones=marks[:1] if number == 0 else marks)
        await place.board().publish_report("i1", quiet, REPORT.model_copy(update={"item": f"T.C.{number}"}))
        await place.board().publish_report("i1", quiet, REPORT.model_copy(update={"item": f"T.C.{number}"}))
        assert len(files_in(place)) == 2 * number


async def test_where_others_can_read_no_picture_is_posted(place: Place) -> None:
    marks = [Milestone(at=NOW, kind="ran", says="reset").to_row()]
    await place.board().publish_report(
        "i7", place.state(lifecycle="closed", milestones=marks), REPORT.model_copy(update={"pictures": (AttachedChart(kind="walk"),)})
    )
    assert not [message for message in place.slack.messages(ACME) if message.get("files")]


async def test_an_answer_names_people_without_mentioning_them(place: Place) -> None:
    said = {"said": {"intent": "assign", "person": "U0ANTON"}}
    answer = REPORT.model_copy(update={"item": "T.C.2", "reply": "U0ANTON is on it."})
    await place.board().publish_report("i1", asked(place, user="U0OLGA", data=said), answer)
    assert place.said()[-1]["text"] == "anton is on it."
    assert "<@" not in str(place.said()[-1].get("blocks"))


async def test_a_card_that_slack_refuses_is_left_alone_and_the_report_still_comes(place: Place) -> None:
    board = place.board()
    await news(board, 1)
    await place.background.wait_until_idle()
    whole, place.slack.workspace.app.scopes = place.slack.workspace.app.scopes, frozenset({"channels:read"})
    for n in range(2, 12):
        await news(board, n)
        await place.background.wait_until_idle()
    assert place.calls("chat.update") == 3
    place.slack.workspace.app.scopes = whole
    await board.publish_report("i1", place.state(), REPORT)
    assert "fell off the bus" in str(place.said()[-1]["blocks"])


async def test_a_rate_limit_is_waited_out(place: Place) -> None:
    place.slack.rates.fail_next("chat.postMessage", 1, 1)
    await place.board().publish_report("i1", place.state(), REPORT)
    assert len(place.said()) == 1


async def test_a_report_asked_for_twice_is_posted_once(place: Place) -> None:
    for _ in range(2):
        await place.board().publish_report("i1", place.state(), REPORT)
    assert len(place.said()) == 1


async def test_a_crash_after_posting_is_found_in_the_thread_and_not_posted_again(place: Place) -> None:
    await place.board().publish_report("i1", place.state(), REPORT)
    await place.cards.set("i1", "living", "posting")
    await place.board().publish_report("i1", place.state(), REPORT)
    assert len(place.said()) == 1
    assert await place.cards.get("i1", "living") == place.said()[0]["ts"]


async def test_a_crash_before_posting_is_made_good(place: Place) -> None:
    await place.cards.set("i1", "living", "posting")
    await place.board().publish_report("i1", place.state(), REPORT)
    assert len(place.said()) == 1


async def test_a_report_carries_its_item_as_metadata_without_mentions(place: Place) -> None:
    loud = REPORT.model_copy(update={"headline": "<!channel> <@U0OLGA>", "next_step": "<!here> see https://evil.example"})
    await place.board().publish_report("i1", place.state(report=loud.model_dump(mode="json")), loud)
    [message] = place.said()
    assert message["metadata"] == {"event_type": "rackmedic_report", "event_payload": {"item": "T.C.1"}}
    assert not any(sign in str(message["blocks"]) + message["text"] for sign in ("<!", "<@", "https://"))


@pytest.mark.parametrize("may", [True, False])
async def test_a_cause_that_another_incident_keeps_is_pointed_to_with_a_link_only_where_it_may_be_followed(place: Place, may: bool) -> None:
    place.bound = build_channel_bindings((ChannelRow(channel=OPS, groups=() if may else ("train",)), ChannelRow(channel=ACME)))
    theirs = REPORT.model_copy(
        update={"shared": (CauseOwnedElsewhere(label=FELL.label, incident="i7", hosts=("gpu-017",)),), "next_step": ""}
    )
    await place.board().publish_report("i1", place.state(report=theirs.model_dump(mode="json")), theirs)
    [message] = place.said()
    [line] = [block["text"]["text"] for block in message["blocks"] if "worked on in" in str(block)]
    where = f"<https://app.slack.com/client/{TEAM}/{ACME}/thread/{ACME}-1700000000.000100|another thread>" if may else "another thread"
    assert line == f"↪ This is worked on in {where}, and decided there. I look again here when that is over."


async def test_of_several_causes_the_hosts_are_named_that_another_incident_keeps(place: Place) -> None:
    other = FELL.model_copy(update={"label": "GPU.MEMORY.Broken", "hosts": ("gpu-018", "gpu-019")})
    rows = (CauseOwnedElsewhere(label=other.label, incident="i7", hosts=other.hosts),)
    theirs = REPORT.model_copy(update={"root_causes": (FELL, other), "shared": rows})
    await place.board().publish_report("i1", place.state(report=theirs.model_dump(mode="json")), theirs)
    assert "↪ *gpu-[018-019]* is worked on in another thread" in str(place.said()[0]["blocks"])


async def test_a_channel_that_became_shared_gets_no_diagnosis(place: Place) -> None:
    place.slack.share(OPS)
    await place.board().publish_report("i1", place.state(), REPORT)
    [message] = place.said()
    assert "shared with another organisation" in message["text"]
    assert "gpu-017" not in str(message)


async def test_without_knowing_who_can_read_along_nothing_is_posted(place: Place) -> None:
    place.slack.rates.fail_next("conversations.info", 9, 1)
    place.tries = 0
    with pytest.raises(SlackAnswerMissing):
        await place.board().publish_report("i1", place.state(), REPORT)
    assert place.said() == []


def ticket(**more: str) -> dict[str, Any]:
    return {
        "ticket": {"state": "open", "owner": "provider", "summary": "Xid 79 on gpu-017", **more},
        "report": REPORT.model_dump(mode="json"),
    }


async def test_a_hand_off_posts_the_ticket_and_the_evidence_once(place: Place) -> None:
    sha = await place.evidence.put_text("i1", "raw output of dmesg")
    cited = FELL.model_copy(update={"evidence": (FELL.evidence[0].model_copy(update={"sha256": sha}),)})
    handed = REPORT.model_copy(update={"outcome": "handed_off", "reply": "Handed over to a human.", "root_causes": (cited,)})
    pressed = {"id": "T.C.1", "kind": "hand_off", "incident": "i1", "at": NOW.isoformat()}
    state = place.state(**(ticket() | {"item": pressed, "report": handed.model_dump(mode="json")}))
    for _ in range(2):
        await place.board().publish_report("i1", state, handed)
    reply, card, file = place.said()
    assert reply["text"] == "Handed over to a human."
    assert "Ticket: not taken yet" in str(card["blocks"])
    [uploaded] = file["files"]
    assert uploaded["name"] == "i1-evidence.txt"
    assert b"raw output of dmesg" in (place.slack.workspace.files.get(uploaded["id"]).content or b"")


async def test_an_incident_closed_without_a_hand_off_gets_no_ticket_and_no_file(place: Place) -> None:
    state = place.state(**ticket(state="resolved", true_label="GPU.BUS.Fell_Off", closed_by="U0ANTON"), lifecycle="closed")
    await place.board().publish_report("i1", state, REPORT)
    said = place.slack.messages(OPS)
    assert not any("Ticket" in str(message) for message in said)
    assert not any(message.get("files") for message in said)


async def test_a_ticket_card_names_its_owner_without_a_mention(place: Place) -> None:
    board = place.board()
    await board.publish_report("i1", place.state(**ticket()), REPORT)
    taken = Report(item="2", outcome="handed_off", reply="Taken by U0ANTON.")
    await board.publish_report("i1", place.state(**ticket(state="taken", taken_by="U0ANTON")), taken)
    texts = [message["text"] for message in place.said()]
    assert "Taken by anton." in texts
    assert any("taken by anton" in text for text in texts)
    assert not any("Ticket: not taken yet" in str(message) for message in place.said())
    assert "<@" not in str([message.get("blocks") for message in place.said()])


async def test_a_ticket_is_taken_although_slack_takes_no_edit_now_and_its_card_follows(place: Place) -> None:
    place.states["i1"] = place.state(**ticket())
    await place.board().publish_report("i1", place.states["i1"], REPORT)
    place.states["i1"] = place.state(**ticket(state="taken", taken_by="U0ANTON"))
    no_edits(place, 1)
    await place.board().publish_report("i1", place.states["i1"], Report(item="2", outcome="handed_off", reply="Taken by U0ANTON."))
    texts = [message["text"] for message in place.said()]
    assert ("Taken by anton." in texts, any("taken by anton" in text for text in texts)) == (True, False)
    place.clock.go(minutes=1)
    assert await place.forsaken().sweep() == 1
    assert any("taken by anton" in message["text"] for message in place.said())


async def test_a_hand_off_stands_although_the_evidence_cannot_be_uploaded(place: Place) -> None:
    place.slack.workspace.app.scopes = frozenset({"chat:write", "channels:read", "channels:history", "users:read"})
    await place.board().publish_report("i1", place.state(**ticket()), REPORT)
    assert len(place.said()) == 2


async def test_a_timer_that_changed_nothing_is_silent_and_a_reminder_asks_again(place: Place) -> None:
    def timer(why: str) -> dict[str, Any]:
        return {"item": InboxItem(id=why, incident="i1", kind="timer", at=T0, data={"why": why}).model_dump(mode="json")}

    asked = REPORT.model_copy(update={"questions": ("Which hosts?",)})
    await place.board().publish_report("i1", place.state(**timer("auto_close")), asked.model_copy(update={"item": "t1"}))
    assert place.said() == []
    await place.board().publish_report("i1", place.state(**timer("remind")), asked.model_copy(update={"item": "t2"}))
    [message] = place.said()
    assert "Which hosts?" in str(message["blocks"])


async def test_incidents_of_the_terminal_are_passed_over(place: Place) -> None:
    board = place.board()
    await board.publish_progress(Progress("i2", "execute", "x"))
    await place.background.wait_until_idle()
    await board.publish_report("i2", {"id": "i2"}, REPORT)
    await board.publish_report("i2", {"id": "i2", "origin": Origin(kind="terminal").model_dump()}, REPORT)
    assert place.calls("chat.postMessage") == 0


async def test_a_closed_incidents_cards_expire_and_an_open_ones_do_not() -> None:
    redis = FakeAsyncRedis()
    cards = PostedCards(redis)
    await cards.set("i1", "living", "1.0")
    await cards.set_retention("i1", closed=True)
    assert await redis.ttl("rm:incident:{i1}:cards") > 29 * 86_400
    await cards.set_retention("i1", closed=False)
    assert await redis.ttl("rm:incident:{i1}:cards") == -1


async def test_a_throttle_lets_a_burst_pass_and_then_keeps_its_rate() -> None:
    time = Time()
    throttle = Throttle(60, 3, seconds=time.seconds, sleep=time.sleep)
    for _ in range(5):
        await throttle.wait_turn()
    assert time.waits == [1.0, 1.0]
    time.now += 100
    for _ in range(4):
        await throttle.wait_turn()
    assert time.waits == [1.0, 1.0, 1.0]


async def waits(board: SlackReportPublisher, likely: LikelyDiagnosis) -> None:
    await board.publish_progress(
        Progress("i1", "execute", done=20, total=22, awaited=(PendingHosts("gpu-003", "nvidia-smi"),), seconds=14, likely=likely)
    )


async def test_who_is_waited_for_and_what_is_likely_by_then_is_said_and_then_settled(place: Place) -> None:
    board = place.board()
    await board.publish_progress(
        Progress("i1", "execute", done=20, total=22, awaited=(PendingHosts("gpu-[003-004]", "nvidia-smi"),), seconds=14)
    )
    await place.background.wait_until_idle()
    assert "waiting for gpu-[003-004]: nvidia-smi, 14 s" in str(place.said()[0]["blocks"])
    await waits(board, LikelyDiagnosis(FELL.label, "GPU fell off the bus on gpu-017"))
    await place.background.wait_until_idle()
    words = str(place.said()[0]["blocks"])
    assert "Likely: GPU fell off the bus on gpu-017" in words
    assert "still checking gpu-003: nvidia-smi, 14 s" in words
    await board.publish_report("i1", place.state(), REPORT)
    assert "ApprovalOutdated" not in str(place.said()[0]["blocks"])


async def test_a_report_that_says_otherwise_than_what_was_likely_says_that_it_changed(place: Place) -> None:
    board = place.board()
    await waits(board, LikelyDiagnosis("GPU.MEMORY.Broken", "Memory error on gpu-003"))
    await place.background.wait_until_idle()
    await board.publish_report("i1", place.state(), REPORT)
    assert "*Changed:* while I waited it looked like Memory error on gpu-003." in str(place.said()[0]["blocks"])


async def test_where_slack_takes_no_plans_their_steps_are_lines_from_the_first_refusal_on(place: Place) -> None:
    place.slack.workspace.unknown_blocks = frozenset({"plan"})
    board = place.board()
    for n in (1, 2, 3):
        await news(board, n)
        await place.background.wait_until_idle()
    [message] = place.said()
    assert "○ Weigh the evidence" in str(message["blocks"])
    assert "3 of 500 checks" in str(message["blocks"])
    refused = [name for name in place.slack.stats()["refusals"] if "invalid_blocks" in name]
    assert [place.slack.stats()["refusals"][name] for name in refused] == [1]


async def signs(place: Place) -> list[str]:
    """Return the reactions to the message that mentioned the bot."""
    await place.background.wait_until_idle()
    return [row["name"] for row in place.slack.thread(OPS, place.thread)[0].get("reactions", [])]


async def test_the_message_that_called_us_shows_one_sign_of_how_the_incident_stands(place: Place) -> None:
    board = place.board()
    await board.publish_progress(Progress("i1", "queued", "On it."))
    await place.background.wait_until_idle()
    assert await signs(place) == ["mag_right"]
    await board.publish_report("i1", place.state(), REPORT)
    assert await signs(place) == ["red_circle"]
    await place.board().publish_report("i1", place.state(**ticket(), lifecycle="handed_off"), REPORT)
    assert await signs(place) == ["ticket"]
    for _ in range(2):
        await place.board().publish_report("i1", place.state(lifecycle="closed"), REPORT)
    assert await signs(place) == ["white_check_mark"]
    assert place.calls("reactions.add") == 4
    await news(board, 1)
    await place.background.wait_until_idle()
    assert await signs(place) == ["mag_right"]


async def test_a_sign_that_a_dead_process_left_half_changed_is_put_right(place: Place) -> None:
    await place.board().publish_report("i1", place.state(), REPORT)
    await place.cards.set("i1", "sign", "red_circle white_check_mark")
    await place.board().publish_report("i1", place.state(lifecycle="closed"), REPORT)
    assert await signs(place) == ["white_check_mark"]


async def test_without_the_scope_there_is_no_sign_and_nothing_else_is_missed(place: Place) -> None:
    place.slack.workspace.app.scopes = frozenset({"chat:write", "channels:read", "channels:history", "users:read"})
    board = place.board()
    await news(board, 1)
    await place.background.wait_until_idle()
    await board.publish_report("i1", place.state(), REPORT)
    assert await signs(place) == []
    assert place.calls("reactions.add") == 1
    assert "fell off the bus" in str(place.said()[0]["blocks"])


async def test_a_sign_of_a_turn_that_is_over_comes_too_late(place: Place) -> None:
    messages, origin = place.messages(), await place.origin("i1")
    assert origin
    before = await messages.get_turn_number("i1")
    await place.board().publish_report("i1", place.state(), REPORT)
    messages.reactions.schedule_reaction(origin, "i1", "looking", before)
    assert await signs(place) == ["red_circle"]


async def test_a_report_that_only_edits_needs_no_sharing_lookup(place: Place) -> None:
    """A report that only edits a message must need no other Slack call, whose rate limit would delay it."""
    board = place.board()
    await board.publish_progress(Progress("i1", "queued", "On it."))
    await place.background.wait_until_idle()
    await board.publish_report("i1", place.state(), REPORT)
    [told] = place.said()
    assert "gpu-017" in str(told["blocks"])
    assert place.calls("conversations.info") == 1, "whoever edited the message above asked"
