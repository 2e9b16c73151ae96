"""What a tracker tells us makes it be asked, and does nothing else; whoever is not that tracker has no effect and learns nothing."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from multidict import CIMultiDict

from bot.inbound.routes import InboundAnswer, InboundRequest
from bot.inbound.signatures import borne, hex_signed
from bot.refusal import Refusal
from bot.run.outward.trackers import site_trackers
from bot.settings import load
from bot.store.outbox import HURRY_GAP, backoff
from bot.terminal.examination.trackers import hook_findings
from bot.trackers.hearing import HEARD, NOBODY
from bot.trackers.kinds import KINDS, open_trackers
from tests.bot.trackers.test_courier import DONE, INCIDENT, Post, post
from tests.support.clock import SetClock
from tests.support.tracker_hooks import HOOK, headers_of, hex_of, hooked
from tests.support.trackers import KEY, config_of


async def told(at: Post, body: bytes, headers: dict[str, str], name: str = "") -> InboundAnswer:
    return await at.hooks.hear(InboundRequest(CIMultiDict(headers), body, {"tracker": name or at.kind}))


async def followed(at: Post) -> dict[str, Any]:
    """A ticket that was sent and asked for once; the next look is a minute away."""
    await at.click()
    await at.sweep()
    await at.sweep(seconds=6)
    [ticket] = at.theirs.tickets.values()
    return ticket


@pytest.mark.parametrize("kind", KINDS)
async def test_news_come_at_once_and_from_the_tracker_itself(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind, hook=HOOK[kind]) as at:
        ticket = await followed(at)
        ticket |= {"state": DONE[kind], "done": True}
        assert await at.sweep(seconds=1) == 0
        assert (await told(at, *hooked(kind, ticket, at.clock.now()))).status == 202
        assert await at.sweep() == 1
        row = await at.row()
        assert (row.notes["done"], "Lies" in row.state) == ("1", False)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_its_body_says_of_the_state_is_believed_by_nobody(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind, hook=HOOK[kind]) as at:
        ticket = await followed(at)
        before = (await at.row()).state
        await told(at, *hooked(kind, ticket, at.clock.now()))
        await at.sweep(seconds=1)
        assert ((await at.row()).state, (await at.row()).notes["done"]) == (before, "")


@pytest.mark.parametrize("kind", KINDS)
async def test_who_is_not_that_tracker_has_no_effect(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind, hook=HOOK[kind]) as at:
        ticket, now = await followed(at), at.clock.now()
        body, good = hooked(kind, ticket, now)
        other = headers_of(kind, body, now, "another-secret-of-30-characters" if kind != "webhook" else "whsec_" + "QUJD" * 12)
        wrong: list[tuple[bytes, dict[str, str], str]] = [
            *[(body, {}, kind), (body, other, kind), (body, good, "other"), (body, good, "\ud800")],
            *[(body, dict.fromkeys(good, ""), kind), (body, {name: value[:-2] for name, value in good.items()}, kind)],
            *[(body, {name: f"é{value}" for name, value in good.items()}, kind)],
            *[(body, {name: value + "," * 2000 for name, value in good.items()}, kind)],
        ]
        if kind != "servicenow":  # a bearer token is over no bytes
            wrong += [(body + b" ", good, kind), (b"", good, kind)]
        answers = [await told(at, *one) for one in wrong]
        assert [answer for answer in answers if answer is not NOBODY] == []
        assert await at.sweep() == 0
        assert await at.hooks.tickets.last(kind) is None


@pytest.mark.parametrize("kind", KINDS)
async def test_a_tracker_without_a_secret_is_not_heard_not_even_by_an_empty_one(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind) as at:
        ticket = await followed(at)
        body, good = hooked(kind, ticket, at.clock.now())
        assert at.hooks.routes == []
        assert (await told(at, body, good)) is NOBODY
        assert (await told(at, body, {"X-Hub-Signature-256": "sha256=" + hex_of("", body), "Authorization": "Bearer "})) is NOBODY


@pytest.mark.parametrize("kind", KINDS)
async def test_whether_a_ticket_is_ours_is_told_to_nobody(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind, hook=HOOK[kind]) as at:
        await followed(at)
        assert (await told(at, *hooked(kind, {"id": "424242"}, at.clock.now()))) == HEARD
        assert await at.sweep() == 0


@pytest.mark.parametrize("kind", KINDS)
async def test_a_message_sent_again_and_again_asks_so_often_and_no_news_are_lost(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind, hook=HOOK[kind]) as at:
        ticket = await followed(at)
        message = hooked(kind, ticket, at.clock.now())
        asked = 0
        for _ in range(60):
            assert (await told(at, *message)).status == 202
            asked += await at.sweep(seconds=1)
        assert asked <= 60 / HURRY_GAP.total_seconds() + 1
        ticket |= {"state": DONE[kind], "done": True}
        await told(at, *hooked(kind, ticket, at.clock.now()))
        await at.sweep(seconds=HURRY_GAP.total_seconds())
        assert (await at.row()).notes["done"] == "1"


@pytest.mark.parametrize("kind", KINDS)
async def test_messages_that_overtake_one_another_end_with_what_the_tracker_says_now(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind, hook=HOOK[kind]) as at:
        ticket = await followed(at)
        early = hooked(kind, ticket, at.clock.now())
        ticket |= {"state": DONE[kind], "done": True}
        late = hooked(kind, ticket, at.clock.now())
        await asyncio.gather(told(at, *late), told(at, *late), told(at, *early))
        await at.sweep(seconds=HURRY_GAP.total_seconds())
        await told(at, *early)
        await at.sweep(seconds=HURRY_GAP.total_seconds())
        row = await at.row()
        assert (row.notes["done"], len(at.theirs.tickets)) == ("1", 1)


@pytest.mark.parametrize("kind", KINDS)
async def test_news_of_a_ticket_before_it_is_recorded_are_read_by_the_first_look(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind, hook=HOOK[kind]) as at:
        await at.click()
        await at.outbox.begin(at.name)  # the one that makes it dies between their answer and our record
        assert (await told(at, *hooked(kind, {"id": "10000"}, at.clock.now()))) == HEARD
        await at.sweep(minutes=30)
        [ticket] = at.theirs.tickets.values()
        assert (await told(at, *hooked(kind, ticket, at.clock.now()))).status == 202
        ticket |= {"state": DONE[kind], "done": True}
        await at.sweep(seconds=HURRY_GAP.total_seconds())
        assert ((await at.row()).notes["done"], len(at.theirs.tickets)) == ("1", 1)


async def test_news_that_come_while_it_is_asked_are_asked_for_again(tmp_path: Path) -> None:
    async with post(tmp_path, "jira", hook=HOOK["jira"]) as at:
        ticket = await followed(at)
        row = await at.outbox.begin(at.name)
        assert row is not None
        await told(at, *hooked("jira", ticket, at.clock.now()))
        assert await at.sweep() == 0, "two have it in hand"
        assert await at.outbox.begin(at.name) is None
        await at.outbox.moved(row, row.state, None)
        assert await at.sweep() == 0
        assert await at.sweep(seconds=HURRY_GAP.total_seconds()) == 1


async def test_what_is_on_its_way_is_not_sent_sooner_nor_what_waits_because_they_said_so(tmp_path: Path) -> None:
    async with post(tmp_path, "jira", hook=HOOK["jira"]) as at:
        at.theirs.fails = [0]
        await at.click()
        await at.sweep()
        await at.hooks.tickets.keep("jira", ["10000"], INCIDENT)
        await told(at, *hooked("jira", {"id": "10000"}, at.clock.now()))
        assert await at.sweep(seconds=1) == 0
        await at.sweep(minutes=3)
        row = await at.row()
        await at.outbox.put_off(row, "over the limit", backoff(9))
        await told(at, *hooked("jira", {"id": row.ticket}, at.clock.now()))
        assert await at.sweep(seconds=60) == 0


async def test_a_ticket_that_nobody_asks_for_any_more_is_asked_for_once_when_there_is_news(tmp_path: Path) -> None:
    async with post(tmp_path, "jira", hook=HOOK["jira"]) as at:
        ticket = await followed(at)
        ticket |= {"state": "Done", "done": True}
        for _ in range(3):
            await at.sweep(days=8)
        assert await at.sweep(days=8) == 0
        ticket |= {"state": "Reopened", "done": False}
        await told(at, *hooked("jira", ticket, at.clock.now()))
        await at.sweep()
        assert ((await at.row()).state, await at.sweep(seconds=61)) == ("Reopened", 1)


async def test_a_note_at_pagerduty_is_about_the_incident_that_it_names(tmp_path: Path) -> None:
    async with post(tmp_path, "pagerduty", hook=HOOK["pagerduty"]) as at:
        await followed(at)
        data = {"type": "incident_note", "id": "PNOTE", "incident": {"id": "P7", "type": "incident_reference"}}
        body = json.dumps({"event": {"event_type": "incident.annotated", "data": data}}).encode()
        await told(at, body, headers_of("pagerduty", body, at.clock.now()))
        assert await at.sweep() == 1


async def test_servicenow_may_sign_and_a_key_that_signs_is_no_token(tmp_path: Path) -> None:
    async with post(tmp_path, "servicenow", hook=[KEY, HOOK["servicenow"]]) as at:
        ticket = await followed(at)
        body, _ = hooked("servicenow", ticket, at.clock.now())
        assert (await told(at, body, {"Authorization": f"Bearer {KEY}"})) is NOBODY
        assert (await told(at, body, headers_of("webhook", body, at.clock.now()))).status == 202


@pytest.mark.parametrize("body", [b"", b"payload=%7B%7D", b"[" * 100_000, b"\xff", b'{"issue": '])
async def test_what_is_signed_and_no_json_is_said_to_whoever_set_it_up(tmp_path: Path, body: bytes) -> None:
    async with post(tmp_path, "github", hook=HOOK["github"]) as at:
        answer = await told(at, body, headers_of("github", body, at.clock.now()))
        assert (answer.status, "application/json" in str(answer.body)) == (400, True)


@pytest.mark.parametrize(
    "body", [b"null", b"[]", b"7", b'{"issue": 7}', b'{"issue": {"number": true}}', b'{"zen": "Keep it"}', b'{"issue": {"number": 1e400}}']
)
async def test_what_is_signed_and_about_no_ticket_is_heard_and_does_nothing(tmp_path: Path, body: bytes) -> None:
    async with post(tmp_path, "github", hook=HOOK["github"]) as at:
        await followed(at)
        assert (await told(at, body, headers_of("github", body, at.clock.now()))).status == 202
        assert await at.sweep() == 0


def test_the_vendors_own_examples_verify() -> None:
    ours = b"It's a Secret to Everybody"
    github = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
    assert hex_signed([ours], github, "sha256=", b"Hello, World!")
    jira = "sha256=a4771c39fbe90f317c7824e83ddef3caae9cb3d976c214ace1f2937e133263c9"
    assert hex_signed([ours], jira, "sha256=", b"Hello World!")


def test_one_of_several_signatures_and_of_several_secrets_is_enough() -> None:
    body, old, new = b"{}", b"old-secret", b"new-secret"
    header = f"v1={'0' * 64}, v2=x,v1={hex_of('new-secret', body)}"
    assert hex_signed([new], header, "v1=", body)
    assert hex_signed([old, new], header, "v1=", body)
    assert not hex_signed([old], header, "v1=", body)
    assert not hex_signed([], header, "v1=", body)
    assert not hex_signed([new], hex_of("new-secret", body), "v1=", body)
    assert not hex_signed([new], f"sha1={hex_of('new-secret', body)}", "v1=", body)
    assert [borne([old], header) for header in ("Bearer old-secret", "bearer old-secret", "Bearer old-secret ", "old-secret", "")] == [
        *[True, False, False, False, False]
    ]


@pytest.mark.parametrize(
    ("kind", "more", "says"),
    [
        ("jira", {"hook": "short"}, "jira.hook.*at least 16"),
        ("github", {"hook": ["x" * 20] * 5}, "github.hook"),
        ("webhook", {"hook": "x" * 20}, "whsec_"),
        ("webhook", {"hook": KEY, "asks": False}, "hook goes with asks"),
        ("servicenow", {"hook": "whsec_" + "x" * 20}, "servicenow.hook.*whsec_"),
        ("pagerduty", {"hook": "x" * 20, "token": None}, "hook goes with token"),
    ],
)
def test_a_hook_that_could_not_be_heard_is_refused(tmp_path: Path, kind: str, more: dict[str, Any], says: str) -> None:
    file = tmp_path / "trackers.yaml"
    file.write_text(yaml.safe_dump({kind: config_of(kind, "https://x.example", **more)}))
    with pytest.raises(Refusal, match=says) as no:
        open_trackers(file, SetClock())
    assert "xxxx" not in str(no.value)


async def test_the_port_goes_with_a_hook_and_the_doctor_says_whether_it_was_heard(tmp_path: Path) -> None:
    file = tmp_path / "trackers.yaml"
    named = {"RACKMEDIC_TRACKERS": str(file)}
    file.write_text(yaml.safe_dump({"jira": config_of("jira", "https://x.example")}))
    with pytest.raises(Refusal, match=r"HTTP_PORT.*hook"):
        site_trackers(load(None, named | {"RACKMEDIC_HTTP_PORT": "8443"}))
    assert site_trackers(load(None, named))[0].hook == ()
    file.write_text(yaml.safe_dump({"jira": config_of("jira", "https://x.example", hook=HOOK["jira"])}))
    with pytest.raises(Refusal, match=r"jira\.hook: set RACKMEDIC_HTTP_PORT"):
        site_trackers(load(None, named))
    settings = load(None, named | {"RACKMEDIC_HTTP_PORT": "8443"})
    async with post(tmp_path, "jira", hook=HOOK["jira"]) as at:
        file.write_text(yaml.safe_dump({"jira": config_of("jira", at.theirs.url, hook=HOOK["jira"])}))
        redis = at.hooks.tickets._redis
        [before] = await hook_findings(settings, redis)
        assert (before.state, "nothing signed was heard yet" in before.says) == ("warn", True)
        await told(at, *hooked("jira", {"id": "1"}, at.clock.now()))
        [after] = await hook_findings(settings, redis)
        assert (after.state, "/trackers/jira on port 8443, the last at 20" in after.says) == ("ok", True)
