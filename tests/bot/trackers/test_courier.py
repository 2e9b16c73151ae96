"""A ticket is created once in each tracker despite failures, and its state is polled back."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from fakeredis import FakeAsyncRedis

from bot.refusal import Refusal
from bot.store.external_outbox import ClickResult, Outbox, OutboxRow, build_tracker_outbox_keys
from bot.trackers.ticket_draft import DraftSection, TrackerDraft, build_draft, render_plain_text, replace_title
from bot.trackers.ticket_sync import BEGAN_KEY, TicketSync, compute_next_poll
from bot.trackers.tracker import RemoteComment, TrackerRefused
from bot.trackers.tracker_kinds import KINDS, open_trackers
from graph.state import IncidentState, Origin
from tests.support.clock import SetClock
from tests.support.trackers import StandInTracker, config_of, stand_in

INCIDENT = "inc-5a17e0"
DRAFT = TrackerDraft(
    incident=INCIDENT,
    title="GPU 7 of gpu-003 fell off the bus",
    sections=(
        DraftSection(head="Root cause", lines=("gpu-003 dmesg: Xid 79 @octocat ```",), printed=True),
        DraftSection(head="What", lines=("it",)),
    ),
    hosts=("gpu-003",),
)


@dataclass
class Post:
    """An outbox with one confirmed ticket, its sync, and a tracker."""

    kind: str
    theirs: StandInTracker
    clock: SetClock
    outbox: Outbox
    courier: TicketSync
    painted: list[str] = field(default_factory=list)
    cause: str | None = None
    told: list[tuple[str, str]] = field(default_factory=list)  # shown comments: (text, what is said beside it)
    slack: bool = True

    @property
    def name(self) -> str:
        return f"{INCIDENT} {self.kind}"

    async def row(self) -> OutboxRow:
        return await self.outbox.load_row(self.name)

    async def sweep(self, **later: float) -> int:
        self.clock.go(**later)
        return await self.courier.sweep()

    async def click(self) -> ClickResult:
        digest = await self.outbox.save_draft(self.name, DRAFT.to_stored_bytes())
        return await self.outbox.queue_draft(self.name, digest, "U1", once=True)


@asynccontextmanager
async def post(tmp_path: Path, kind: str, **more: object) -> AsyncIterator[Post]:
    clock = SetClock()
    async with stand_in(clock) as theirs:
        file = tmp_path / "trackers.yaml"
        file.write_text(yaml.safe_dump({kind: config_of(kind, theirs.url, **more)}))
        [tracker] = open_trackers(file, clock)
        outbox = Outbox(FakeAsyncRedis(), clock, build_tracker_outbox_keys())
        made: list[Post] = []

        async def paint(name: str) -> None:
            made[0].painted.append(name)

        async def closing(_: str) -> str | None:
            return made[0].cause

        async def tell(_: str, said: RemoteComment, beside: str) -> bool:
            if made[0].slack:
                made[0].told.append(("\n".join(said.lines), beside))
            return made[0].slack

        courier = TicketSync(outbox, {kind: tracker}, clock, paint, closing, tell)
        made.append(Post(kind, theirs, clock, outbox, courier))
        yield made[0]


DONE = {"jira": "Done", "servicenow": "6", "pagerduty": "resolved", "github": "closed", "webhook": "done"}


@pytest.mark.parametrize("kind", KINDS)
async def test_a_failing_first_try_is_repeated_and_the_state_comes_back(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind) as at:
        at.theirs.fails = [429]
        assert await at.click() is ClickResult.SENT
        await at.sweep()
        assert ("429" in (row := await at.row()).trouble, row.pending, row.notes[BEGAN_KEY], at.theirs.made) == (True, True, "", 0)
        wait = {"pagerduty": 60}.get(kind, 30)
        assert await at.sweep(seconds=wait - 10) == 0
        await at.sweep(seconds=11)
        [ticket] = at.theirs.tickets.values()
        assert (ticket["title"], "Xid 79" in ticket["body"], (await at.row()).stage) == (DRAFT.title, True, "sent")
        await at.sweep(seconds=6)
        before = (await at.row()).state
        ticket |= {"state": DONE[kind], "done": True}
        await at.sweep(seconds=61)
        after = await at.row()
        assert before
        assert (after.state != before, after.notes["done"]) == (True, "1")
        assert await at.click() is ClickResult.BEFORE


@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_that_was_lost_makes_no_second_ticket(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind) as at:
        at.theirs.fails = [0]
        await at.click()
        await at.sweep()
        assert (at.theirs.made, (await at.row()).pending, bool((await at.row()).notes[BEGAN_KEY])) == (1, True, True)
        await at.sweep(minutes=3)
        assert (at.theirs.made, (await at.row()).stage) == (1, "sent")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_process_killed_before_it_sent_leaves_it_to_the_next(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind) as at:
        await at.click()
        assert await at.outbox.claim_due() == [at.name]
        await at.outbox.record_notes(await at.row(), **{BEGAN_KEY: at.clock.now().isoformat()})
        assert await at.sweep() == 0
        await at.sweep(seconds=91)
        assert (at.theirs.made, (await at.row()).stage) == (1, "sent")


async def test_what_jiras_index_does_not_show_yet_is_not_sent_again(tmp_path: Path) -> None:
    async with post(tmp_path, "jira") as at:
        at.theirs.fails, at.theirs.hidden = [0], True
        await at.click()
        await at.sweep()
        await at.sweep(seconds=30)
        assert ("not known" in (await at.row()).trouble, at.theirs.made) == (True, 1)
        at.theirs.hidden = False
        await at.sweep(seconds=90)
        assert (at.theirs.made, (await at.row()).stage) == (1, "sent")


@pytest.mark.parametrize(
    ("kind", "wrong", "says"),
    [
        ("jira", {"token": "other"}, "jira.token"),
        ("jira", {"project": "NONE"}, "project: valid project"),
        ("jira", {"token": "another"}, "Client must be authenticated"),
        ("jira", {"fields": {"customfield_1": "x"}}, "customfield_1"),
        ("github", {"token": "other"}, "github.token"),
        ("github", {"repo": "acme/gone"}, "github.repo"),
        ("servicenow", {"password": "other"}, "servicenow.password"),
        ("pagerduty", {"routing_key": "x" * 32}, "pagerduty.routing_key"),
        ("webhook", {"key": "whsec_" + "QUJD" * 12}, "webhook.key"),
    ],
)
async def test_what_is_refused_says_how_to_mend_it_and_may_be_sent_anew(
    tmp_path: Path, kind: str, wrong: dict[str, object], says: str
) -> None:
    async with post(tmp_path, kind, **wrong) as at:
        await at.click()
        await at.sweep()
        row = await at.row()
        assert (row.stage, says in row.refused, at.theirs.made, "other" in row.refused) == ("refused", True, 0, False)
        assert await at.click() is ClickResult.SENT


@pytest.mark.parametrize("kind", KINDS)
async def test_our_closing_is_told_there_once_where_the_site_says_so(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind, on_close="close") as at:
        await at.click()
        await at.sweep()
        at.cause = "the riser was reseated"
        for _ in range(3):
            await at.sweep(hours=1)
        assert sum("riser" in said for said in at.theirs.comments) == (0 if kind == "pagerduty" else 1)


async def test_a_correlation_that_servicenow_dropped_is_said(tmp_path: Path) -> None:
    async with post(tmp_path, "servicenow") as at:
        at.theirs.drops_correlation = True
        await at.click()
        await at.sweep()
        assert "passed over correlation_id" in (await at.row()).refused


async def test_a_ticket_that_is_gone_there_is_said_and_asked_for_no_more(tmp_path: Path) -> None:
    async with post(tmp_path, "jira") as at:
        await at.click()
        await at.sweep()
        at.theirs.tickets.clear()
        await at.sweep(seconds=6)
        assert ("it is gone" in (await at.row()).refused, await at.sweep(days=1)) == (True, 0)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_tracker_is_tried_without_making_anything(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind) as at:
        assert await at.courier.trackers[kind].check_access()
        assert at.theirs.made == 0


async def test_a_type_that_a_project_has_not_is_named_with_those_that_it_has(tmp_path: Path) -> None:
    async with post(tmp_path, "jira", type="Incident") as at:
        with pytest.raises(TrackerRefused, match="Task, Bug"):
            await at.courier.trackers["jira"].check_access()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("jira: {kind: jira, url: 'http://jira.example', token: hush-hush}", "https://"),
        ("jira: {kind: jra}", "jira.kind: must be one of"),
        ("Jira!: {kind: jira}", "a name is small letters"),
        ("[]", "mapping of trackers"),
        ("jira: {token: hush-hush", "no YAML"),
        ("hook: {kind: webhook, url: 'https://x.example', key: hush-hush}", "hook.key"),
        (
            "jira: {kind: jira, hook: hush-hush-hush-hush-hush}",
            "jira.hook: was removed; delete the key. Comments and state are fetched by polling",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_no_secret_is_printed(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "trackers.yaml"
    file.write_text(text)
    with pytest.raises(Refusal, match=says) as no:
        open_trackers(file, SetClock())
    assert "hush" not in str(no.value)


@pytest.mark.parametrize(
    ("hours", "done", "over", "seconds"),
    [
        *[(0, False, False, 10), (2, False, False, 50), (25, False, False, 300), (24 * 91, False, False, None)],
        *[(0, True, False, 300), (24 * 8, True, False, None), (0, True, True, None)],
    ],
)
def test_the_interval_between_two_looks_grows_with_the_time_since_the_last_change(
    hours: int, done: bool, over: bool, seconds: int | None
) -> None:
    after = compute_next_poll(timedelta(hours=hours), timedelta(seconds=10), done=done, over=over)
    assert after == (None if seconds is None else timedelta(seconds=seconds))


def test_a_customers_words_and_name_do_not_leave() -> None:
    state: IncidentState = {
        "brief": {"text": "our secret model diverges", "hosts": ["gpu-003"]},
        "report": {"item": "x", "outcome": "handed_off", "headline": "ACME's job hangs on gpu-003, password=hunter2hunter2"},
        "said": [{"text": "our secret model diverges", "at": "2026-05-20T03:10:00+00:00"}],
    }
    draft = build_draft(INCIDENT, state, Origin(kind="slack", team="T1", channel="C1", thread_ts="1.0", tenant="acme"), {}, ("acme",))
    words = f"{draft.title} {render_plain_text(draft, 'm')}"
    assert [word for word in ("acme", "secret model", "hunter2") if word in words.lower()] == []
    assert "a customer's job hangs" in words


def test_a_customers_name_leaves_within_no_word_and_hosts_keep_theirs() -> None:
    state: IncidentState = {
        "brief": {"text": "", "hosts": ["acme-gpu-003", "acme-gpu-004"]},
        "report": {
            "item": "x",
            "outcome": "handed_off",
            "headline": "acme-llama-70b of ACME_ml at /home/acme/run hangs, der Acme-Cluster too, on acme-gpu-003 and acme-gpu-[003-004]; acmeology",
        },
    }
    draft = build_draft(INCIDENT, state, Origin(kind="slack", team="T1", channel="C1", thread_ts="1.0"), {}, ("acme",))
    assert draft.title == (
        "a customer-llama-70b of a customer_ml at /home/a customer/run hangs, der a customer-Cluster too, "
        "on acme-gpu-003 and acme-gpu-[003-004]; a customer-ology"
    )
    assert draft.hosts == ("acme-gpu-003", "acme-gpu-004")
    assert replace_title(draft, "Acme's job on acme-gpu-004", ("acme",)).title == "a customer's job on acme-gpu-004"
    numbered = draft.model_copy(update={"hosts": ("acme7", "acme-x")})
    assert replace_title(numbered, "acme's job on acme7 and acme-x", ("acme",)).title == "a customer's job on acme7 and acme-x"
