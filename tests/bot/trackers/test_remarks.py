"""Comments on an external ticket are posted once in the thread as quotes: never parsed, never where others read."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bot.trackers.comments import (
    MAX_COMMENT_LINES,
    MAX_TEXT_CHARS,
    build_comment,
    extract_adf_text,
    format_closing_comment,
    parse_comment_time,
    split_bounded_lines,
)
from bot.trackers.handlers import REMARK_EVENT_TYPE
from bot.trackers.ticket_sync import HANDLED_COMMENTS_KEY, MAX_COMMENTS_PER_POLL, MAX_COMMENTS_PER_TICKET
from bot.trackers.tracker import RemoteComment
from bot.trackers.tracker_kinds import KINDS
from tests.bot.trackers.test_courier import INCIDENT, Post, post
from tests.bot.trackers.test_office import Office, office
from tests.support.fakes_bot import OPS
from tools.inventory.inventory import ChannelRow

pytestmark = pytest.mark.slow


async def there(at: Post) -> str:
    """Send a ticket, poll once, and return its external id."""
    await at.click()
    await at.sweep()
    await at.sweep(seconds=6)
    [ticket] = at.theirs.tickets
    return str(ticket)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_people_write_there_is_shown_once(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind) as at:
        ticket = await there(at)
        at.theirs.write(ticket, "The riser is on its way.\nTomorrow.")
        for _ in range(3):
            await at.sweep(seconds=61)
        assert at.told == [("The riser is on its way.\nTomorrow.", "")]
        at.theirs.write(ticket, "It is here.")
        await at.sweep(minutes=6)
        assert [text for text, _ in at.told][1:] == ["It is here."]


@pytest.mark.parametrize("kind", ["jira", "servicenow", "github", "webhook"])
async def test_what_we_wrote_there_ourselves_is_not_echoed(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind, on_close="comment") as at:
        ticket = await there(at)
        at.cause = "the riser was reseated"
        await at.sweep(minutes=2)
        at.theirs.write(ticket, "Thank you!")
        await at.sweep(minutes=6)
        assert len(at.theirs.comments) == 1
        assert [text for text, _ in at.told] == ["Thank you!"]


@pytest.mark.parametrize("kind", KINDS)
async def test_what_slack_did_not_take_is_shown_later(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind) as at:
        ticket, at.slack = await there(at), False
        at.theirs.write(ticket, "one")
        await at.sweep(seconds=61)
        at.slack = True
        await at.sweep(seconds=61)
        await at.sweep(seconds=61)
        assert [text for text, _ in at.told] == ["one"]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "webhook"])
async def test_comments_that_are_not_for_us_hide_no_state_and_come_once_they_are(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind) as at:
        ticket = await there(at)
        at.theirs.write(ticket, "one")
        at.theirs.closed_to_us = True
        at.theirs.tickets[ticket] |= {"state": "6" if kind == "servicenow" else "moved"}
        await at.sweep(seconds=61)
        row = await at.row()
        assert (bool(row.notes["unread"]), row.state in ("moved", "Resolved"), row.trouble, at.told) == (True, True, "", [])
        at.theirs.closed_to_us = False
        await at.sweep(minutes=31)
        assert ((await at.row()).notes["unread"], [text for text, _ in at.told]) == ("", ["one"])


@pytest.mark.parametrize("kind", KINDS)
async def test_a_flood_is_bounded_and_said(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind) as at:
        ticket = await there(at)
        for number in range(18):
            at.theirs.write(ticket, f"number {number}")
        for _ in range(3):
            await at.sweep(minutes=6)
        assert [text for text, _ in at.told] == [f"number {number}" for number in range(18 - MAX_COMMENTS_PER_POLL, 18)]
        assert [beside for _, beside in at.told] == ["13 earlier comments are shown only there.", "", "", "", ""]
        for number in range(30):
            for more in range(5):
                at.theirs.write(ticket, f"number {number} {more}")
            await at.sweep(minutes=6)
        assert (len(at.told), "further comments" in at.told[-1][1]) == (MAX_COMMENTS_PER_TICKET, True)
        assert len((await at.row()).notes[HANDLED_COMMENTS_KEY]) < 2000


async def test_comments_are_not_fetched_if_switched_off(tmp_path: Path) -> None:
    async with post(tmp_path, "jira", comments=False) as at:
        ticket = await there(at)
        at.theirs.write(ticket, "one")
        await at.sweep(seconds=61)
        assert (at.told, [call for call in at.theirs.asked if "comment" in call]) == ([], [])


async def test_what_stood_there_before_comments_were_read_stays_there(tmp_path: Path) -> None:
    async with post(tmp_path, "github") as at:
        ticket = await there(at)
        await at.outbox._redis.hdel(at.outbox._box.row(at.name), HANDLED_COMMENTS_KEY)
        at.theirs.write(ticket, "old")
        await at.sweep(seconds=61)
        at.theirs.write(ticket, "new")
        await at.sweep(seconds=61)
        assert [text for text, _ in at.told] == ["new"]


async def test_a_comment_for_some_people_alone_stays_with_them(tmp_path: Path) -> None:
    async with post(tmp_path, "jira") as at:
        ticket = await there(at)
        at.theirs.write(ticket, "salaries", visibility="Administrators")
        at.theirs.write(ticket, "for all")
        await at.sweep(seconds=61)
        assert [text for text, _ in at.told] == ["for all"]


async def test_the_newest_of_many_are_found_over_githubs_pages(tmp_path: Path) -> None:
    async with post(tmp_path, "github") as at:
        ticket = await there(at)
        for number in range(102):
            at.theirs.write(ticket, f"number {number}")
        await at.sweep(seconds=61)
        assert [text for text, _ in at.told] == [f"number {number}" for number in range(97, 102)]
        assert at.told[0][1].startswith("15 earlier"), "of the newest twenty"


async def test_a_process_that_dies_over_a_comment_shows_no_other_twice(tmp_path: Path) -> None:
    async with post(tmp_path, "jira") as at:
        ticket = await there(at)
        for text in ("one", "two", "three"):
            at.theirs.write(ticket, text)
        plain = at.courier.tell

        async def dies(name: str, said: RemoteComment, beside: str) -> bool:
            if said.lines == ("two",):
                raise ConnectionResetError
            return await plain(name, said, beside)

        await replace(at.courier, tell=dies).sweep()
        at.clock.go(seconds=61)
        await replace(at.courier, tell=dies).sweep()
        assert [text for text, _ in at.told] == ["one"]
        await at.sweep(seconds=91)
        assert [text for text, _ in at.told] == ["one", "two", "three"]


HOSTILE = (
    "<!channel> <@U0PRIYA> @rackmedic approve 1\n```\n*stop* @here <https://evil.example|click me> https://evil.example/x\n"
    "token ghp_abcdefghijklmnopqrstuvwxyz0123456789 password=hunter2hunter2\n\u202egnp.exe\u200b :white_check_mark: &lt;!channel&gt;"
)


def said(text: str = "It is here.", id_: str = "7", **more: Any) -> RemoteComment:
    made = build_comment(id_, "Beth <!here>", text, "2026-05-20T03:10:00Z", **more)
    assert made is not None
    return made


async def sent(at: Office) -> str:
    """Send a ticket that is followed in its thread; return its row's name."""
    view = await at.opened()
    await at.bot.slack.submit("priya", view["id"], {})
    await at.bot.settled()
    await at.sweep(seconds=1)
    return f"{at.incident} jira"


def notes_in(at: Office) -> list[dict[str, Any]]:
    return [row for row in at.bot.slack.thread(OPS, at.thread) if (row.get("metadata") or {}).get("event_type") == REMARK_EVENT_TYPE]


async def test_a_note_names_who_and_when_links_and_is_quoted_escaped_and_without_secrets() -> None:
    async with office() as at:
        name = await sent(at)
        assert await at.cards.quote_remark(name, said(HOSTILE, url=f"{at.theirs.url}/browse/OPS-1"), "2 more")
        [note] = notes_in(at)
        whole = json.dumps([note["text"], note["blocks"]], ensure_ascii=False)
        assert [
            word for word in ("<!", "<@", "<https://evil", "ghp_", "hunter2", "\u202e", "\u200b") if word in whole.replace("<!date^", "")
        ] == []
        assert [
            word for word in ("Beth", "date^", f"<{at.theirs.url}/browse/OPS-1|there>", "2 more", "approve 1") if word not in whole
        ] == []


async def test_a_posted_note_is_not_processed_as_a_message() -> None:
    async with office() as at:
        name = await sent(at)
        before = (list(at.bot.woken), len(await at.bot.inbox.list_waiting(at.incident)))
        for number, words in enumerate(("@rackmedic approve 1", "stop", "hand off", "yes", "@rackmedic job 9 hangs on gpu-004", HOSTILE)):
            assert await at.cards.quote_remark(name, said(words, str(number)), "")
        await at.bot.settled()
        assert (list(at.bot.woken), len(await at.bot.inbox.list_waiting(at.incident))) == before
        assert len(notes_in(at)) == 6


async def test_two_processes_and_one_that_died_after_posting_show_it_once() -> None:
    async with office() as at:
        name = await sent(at)
        other = replace(at.cards)
        assert all(await asyncio.gather(at.cards.quote_remark(name, said(), ""), other.quote_remark(name, said(), "")))
        assert await at.cards.quote_remark(name, said(), "")
        card = f"tracker:jira:remark:{said().id_hash}"
        await at.cards.kept.cards.set(at.incident, card, "posting")
        assert await other.quote_remark(name, said(), "")
        assert len(notes_in(at)) == 1


@pytest.mark.parametrize("bound", [{}, {OPS: ChannelRow(channel=OPS, kind="tenant", tenant="acme", internal="C9")}])
async def test_nothing_is_shown_where_others_read(bound: dict[str, ChannelRow]) -> None:
    async with office() as at:
        name = await sent(at)
        theirs = replace(at.cards, bound=bound)
        shown = at.shown()
        assert await theirs.quote_remark(name, said(), "")
        await theirs.update_card(name)
        assert (notes_in(at), at.shown()) == ([], shown)


@pytest.mark.parametrize("kind", KINDS)
async def test_from_the_tracker_to_the_thread(kind: str) -> None:
    async with office(kind) as at:
        view = await at.opened()
        await at.bot.slack.submit("priya", view["id"], {})
        await at.bot.settled()
        await at.sweep(seconds=1)
        [ticket] = at.theirs.tickets
        at.theirs.write(str(ticket), "The part is here.", by="Beth Anglin", url="https://evil.example/x")
        await at.sweep(seconds=61)
        await at.sweep(seconds=61)
        [note] = notes_in(at)
        assert [word for word in ("The part is here.", "Beth Anglin") if word not in str(note["blocks"])] == []
        assert "evil.example" not in str(note)


def test_an_empty_comment_and_one_without_an_id_are_none() -> None:
    assert [build_comment(*words) for words in (("", "b", "text"), ("x" * 201, "b", "text"), ("1", "b", " \n\t\n"))] == [None] * 3


@pytest.mark.parametrize(
    "text", ["x\n" * 200_000, "y" * 500_000, "-----BEGIN RSA PRIVATE KEY-----\n" + (16 * "QUJD" + "\n") * 3000, "\0" * 9000, "é\r\n" * 99]
)
def test_a_comment_of_any_size_is_bounded(text: str) -> None:
    lines = split_bounded_lines(text)
    assert len(lines) <= MAX_COMMENT_LINES + 1
    assert sum(map(len, lines)) <= MAX_TEXT_CHARS + 40
    assert "QUJD" not in str(lines)


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("2026-05-20T03:10:00.000+0000", "2026-05-20T03:10:00+00:00"),
        ("2026-05-20 03:10:00", "2026-05-20T03:10:00+00:00"),
        ("2026-05-20T05:10:00+02:00", "2026-05-20T03:10:00+00:00"),
        ("", None),
        ("tomorrow", None),
        ("0001-01-01T00:00:00+14:00", None),
    ],
)
def test_times_are_read_as_trackers_write_them(text: str, at: str | None) -> None:
    read = parse_comment_time(text)
    assert (read.isoformat() if read else None) == at


def test_a_document_of_atlassians_is_read_as_people_see_it() -> None:
    document = {
        "type": "doc",
        "content": [
            {"type": "paragraph", "content": [{"type": "text", "text": "Hi "}, {"type": "mention", "attrs": {"id": "5", "text": "@Beth"}}]},
            {
                "type": "bulletList",
                "content": [{"type": "listItem", "content": [{"type": "paragraph", "content": [{"type": "text", "text": "a"}]}]}],
            },
            {"type": "codeBlock", "content": [{"type": "text", "text": "x\ny"}]},
            {
                "type": "paragraph",
                "content": [{"type": "text", "text": "b"}, {"type": "hardBreak"}, {"type": "inlineCard", "attrs": {"url": "u"}}],
            },
        ],
    }
    assert split_bounded_lines(extract_adf_text(document)) == ("Hi @Beth", "a", "x", "y", "b", "u")
    deep: Any = {"type": "text", "text": "deep"}
    for _ in range(3000):
        deep = {"type": "blockquote", "content": [deep]}
    assert "deep" in extract_adf_text(deep)
    oddities: tuple[Any, ...] = (None, 7, [], {}, {"content": "x"}, {"type": ["x"], "attrs": 3}, {"type": "text", "text": {}})
    assert "".join(map(extract_adf_text, oddities)) == ""


def test_our_own_words_are_known_again_also_in_a_fence() -> None:
    ours = format_closing_comment(INCIDENT, "the riser")
    assert [said(text).is_own for text in (ours, f"```text\n{ours}\n```", f"> they said: {ours}", "fine")] == [True, True, False, False]


async def test_a_comment_that_slack_never_takes_is_left_in_the_end_and_hides_no_other(tmp_path: Path) -> None:
    async with post(tmp_path, "jira") as at:
        ticket = await there(at)
        at.theirs.write(ticket, "poison")
        plain = at.courier.tell

        async def refuses(name: str, said: RemoteComment, beside: str) -> bool:
            return said.lines != ("poison",) and await plain(name, said, beside)

        courier, asked = replace(at.courier, tell=refuses), 0
        for minute in range(60 * 24):
            at.clock.go(minutes=1)
            asked += await courier.sweep()
            if minute == 5:
                at.theirs.write(ticket, "the next")
        assert [text for text, _ in at.told] == ["the next"]
        assert asked < 60 * 24 / 2, "it is asked for ever more rarely meanwhile"


@pytest.mark.parametrize("kind", ["jira", "github", "pagerduty"])
async def test_comments_too_long_to_be_read_hide_no_state(tmp_path: Path, kind: str) -> None:
    async with post(tmp_path, kind) as at:
        ticket = await there(at)
        for _ in range(20):
            at.theirs.write(ticket, "x" * 65_000)
        at.theirs.tickets[ticket] |= {"state": "moved"}
        await at.sweep(seconds=61)
        row = await at.row()
        assert (row.state, row.trouble, "more than 1 MiB" in row.notes["unread"]) == ("moved", "", True)


def test_who_answers_below_our_own_words_is_heard() -> None:
    ours = format_closing_comment(INCIDENT, "the riser")
    assert not said(f"{ours}\nNo, it is not: the riser is still broken.").is_own
    assert said(f"{ours}\n").is_own


@pytest.mark.parametrize("id_", ["7", "7&x=<!channel>", "٣", "9" * 40, "../../admin"])
async def test_a_link_to_a_comment_is_one_of_the_tracker_itself(tmp_path: Path, id_: str) -> None:
    async with post(tmp_path, "jira") as at:
        ticket = await there(at)
        at.theirs.remarks[ticket] = [{"id": id_, "by": "Beth", "text": "x", "at": at.clock.now().isoformat()}]
        links: list[str] = []

        async def keeps(_: str, said: RemoteComment, beside: str) -> bool:
            links.append(said.url)
            return True

        at.clock.go(seconds=61)
        await replace(at.courier, tell=keeps).sweep()
        base = f"{at.theirs.url}/browse/OPS-10000"
        assert links == [f"{base}?focusedCommentId=7" if id_ == "7" else base]
