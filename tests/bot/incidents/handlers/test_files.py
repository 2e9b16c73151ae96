"""Files and thread messages are fetched when a turn begins; failures are reported, and our token is sent only to Slack."""

import gzip
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from bot.incidents.handlers.files import FileNotRead, ItemFetcher, unpack_gzip
from bot.incidents.handlers.thread_history import MAX_PROSE_CHARS, MAX_TOTAL_CHARS, combine_messages
from bot.slack.client import build_slack_client
from bot.slack.payloads import MAX_FILES
from deploy.sandbox.slack import SlackSandbox
from graph.state import InboxItem
from tests.support.fakes_bot import ACME, OPS
from tools.evidence import MemoryEvidence


@pytest.fixture
async def slack() -> AsyncIterator[SlackSandbox]:
    async with SlackSandbox() as slack:
        yield slack


def item(**data: Any) -> InboxItem:
    return InboxItem(id="x", kind="mention", incident="i1", at=datetime(2026, 5, 20, tzinfo=UTC), text="look", data=data)


def pointers(slack: SlackSandbox, ts: str) -> list[dict[str, Any]]:
    [message] = [m for m in slack.messages(OPS) if m["ts"] == ts]
    return [{"id": f["id"], "name": f["name"], "size": f["size"], "url": f["url_private"]} for f in message["files"]]


async def fetched(slack: SlackSandbox, given: InboxItem, **limits: int) -> tuple[InboxItem, MemoryEvidence]:
    evidence = MemoryEvidence()
    return await ItemFetcher(build_slack_client(slack.bot_token, slack.api_url), evidence, **limits)(given), evidence


async def test_a_log_goes_to_the_evidence_store_and_the_item_holds_its_digest(slack: SlackSandbox) -> None:
    files = [("a.log", b"Xid 79\xff"), ("b.log.gz", gzip.compress(b"NCCL WARN"))]
    got, evidence = await fetched(slack, item(files=pointers(slack, await slack.say("olga", OPS, "see", files=files))))
    assert [a.name for a in got.attachments] == ["a.log", "b.log.gz"]
    assert [await evidence.get_text(a.sha256) for a in got.attachments] == ["Xid 79�", "NCCL WARN"]
    assert got.text == "look"


async def test_a_mention_in_a_thread_brings_the_message_and_files_that_began_it(slack: SlackSandbox) -> None:
    root = await slack.say("dmitri", OPS, "job 4711 <died> on gpu-019", files=[("train.log", b"boom")])
    got, _ = await fetched(slack, item(root={"channel": "C0GPUINC", "ts": root}))
    assert got.text == "job 4711 <died> on gpu-019\n\nlook"
    assert [a.name for a in got.attachments] == ["train.log"]


async def test_a_mention_in_a_thread_reads_the_whole_thread_but_what_came_later_and_what_we_said(slack: SlackSandbox) -> None:
    root = await slack.say("dmitri", OPS, "training died")
    await slack.say("priya", OPS, "it was gpu-019, see the log", thread_ts=root, files=[("rank0.log", b"boom")])
    ours = build_slack_client(slack.bot_token, slack.api_url)
    await ours.chat_postMessage(channel=OPS, thread_ts=root, text="Mention me, for example: job 4711 hangs on gpu-[017-020].")
    called = await slack.say("olga", OPS, "@rackmedic look", thread_ts=root)
    await slack.say("olga", OPS, "and gpu-033?", thread_ts=root)
    got, _ = await fetched(slack, item(root={"channel": OPS, "ts": root, "upto": called}))
    assert got.text == "training died\n\nit was gpu-019, see the log\n\nlook"
    assert [a.name for a in got.attachments] == ["rank0.log"]


def test_of_a_long_thread_the_beginning_and_the_latest_are_read() -> None:
    rows = [{"text": f"{n} " + "words " * 40} for n in range(100)]
    said = combine_messages(rows).text
    assert said.startswith("0 words")
    assert said.rstrip().endswith(rows[-1]["text"].strip())
    assert "[88 messages of this thread were left out here]" in said
    assert len(said) < MAX_PROSE_CHARS + 100
    pasted = [{"text": f"see\n```\n{'x' * 3900}\n```"} for _ in range(20)]
    assert combine_messages(pasted).text.count("```") == 40
    assert len(combine_messages([{"text": f"see\n```\n{'x' * 3900}\n```"} for _ in range(200)]).text) <= MAX_TOTAL_CHARS + 1000


def test_a_thread_with_many_files_brings_the_first_ones() -> None:
    assert len(combine_messages([{"text": "a", "files": [{"id": f"F{n}", "name": "a.log"}]} for n in range(30)]).files) == MAX_FILES


async def test_what_cannot_be_read_stays_an_attachment_that_says_why(slack: SlackSandbox) -> None:
    rows = pointers(
        slack, await slack.say("olga", OPS, "see", files=[("core", b"\x7fELF\0\0"), ("big.log", b"x" * 3000), ("ok.log", b"fine")])
    )
    elsewhere = {"id": "F1", "name": "ext.log", "size": 5, "url": "https://drive.example/ext.log"}
    lied = {**rows[1], "name": "lied.log", "size": 0}
    got, _ = await fetched(slack, item(files=[*rows, elsewhere, lied]), largest=2000)
    assert {(a.name, a.size, a.unread) for a in got.attachments} == {
        ("core", 6, "binary"),
        ("big.log", 3000, "too_large"),
        ("ok.log", 4, ""),
        ("ext.log", 5, "elsewhere"),
        ("lied.log", 0, "too_large"),
    }
    assert got.text == "look"


async def test_pictures_archives_and_documents_are_told_from_logs(slack: SlackSandbox) -> None:
    given = [
        ("screen.png", b"\x89PNG\r\n\x1a\n\0\0", "image"), ("photo.jpg", b"\xff\xd8\xff\xe0\0\x10JFIF", "image"),
        ("logs.zip", b"PK\x03\x04\x14\0", "archive"), ("logs.tar.gz", gzip.compress(b"a" * 257 + b"ustar" + b"\0" * 99), "archive"),
        ("report.pdf", b"%PDF-1.7\n", "document"), ("cut.gz", b"\x1f\x8b broken", "broken"),
        ("BM-1.log", b"BM 3 is down\n", ""), ("windows.log", "Xid 79\r\n".encode("utf-16"), ""),
    ]  # fmt: skip
    rows = pointers(slack, await slack.say("olga", OPS, "see", files=[(name, raw) for name, raw, _ in given]))
    got, evidence = await fetched(slack, item(files=rows))
    assert [(a.name, a.size, a.unread) for a in got.attachments] == [(name, len(raw), why) for name, raw, why in given]
    assert await evidence.get_text(got.attachments[-1].sha256) == "Xid 79\r\n"


async def test_all_files_together_have_a_bound(slack: SlackSandbox) -> None:
    rows = pointers(slack, await slack.say("olga", OPS, "see", files=[(f"{n}.log", b"x" * 100) for n in range(6)]))
    got, _ = await fetched(slack, item(files=rows), largest=100)
    assert [a.name for a in got.attachments if not a.unread] == ["0.log", "1.log", "2.log", "3.log"]
    assert [a.name for a in got.attachments if a.unread == "too_much"] == ["4.log", "5.log"]


async def test_a_sign_in_page_is_not_a_log(slack: SlackSandbox) -> None:
    rows = pointers(slack, await slack.say("olga", OPS, "see", files=[("a.log", b"boom")]))
    got = await ItemFetcher(build_slack_client("xoxb-wrong", slack.api_url), MemoryEvidence())(
        item(files=rows, root={"channel": OPS, "ts": "1.000001"})
    )
    assert [(a.name, a.unread) for a in got.attachments] == [("a.log", "refused")]
    assert "[the beginning of this thread could not be read:" in got.text


async def test_our_token_is_never_sent_elsewhere_not_even_by_redirection(slack: SlackSandbox) -> None:
    heard: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        heard.append(request.headers.get("Authorization", ""))
        return web.Response(text="mine")

    app = web.Application()
    app.router.add_get("/x.log", elsewhere)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    try:
        got, _ = await fetched(slack, item(files=[{"id": "F", "name": "x.log", "size": 1, "url": f"http://127.0.0.1:{port}/x.log"}]))
    finally:
        await runner.cleanup()
    assert heard == []
    assert [a.unread for a in got.attachments] == ["elsewhere"]


def test_an_archive_is_unpacked_as_far_as_the_limit() -> None:
    assert unpack_gzip(gzip.compress(b"x" * 10_000), 100) == b"x" * 100
    with pytest.raises(FileNotRead, match="broken"):
        unpack_gzip(b"\x1f\x8b broken", 100)


async def test_a_file_of_another_workspace_comes_as_an_id_and_is_asked_for(slack: SlackSandbox) -> None:
    ts = await slack.say("carla", ACME, "see", files=[("rank0.log", b"NCCL WARN")])
    whole = next(m for m in slack.messages(ACME) if m["ts"] == ts)["files"][0]
    got, evidence = await fetched(slack, item(files=[{"id": whole["id"], "name": "file", "size": 0, "url": ""}]))
    [read] = got.attachments
    assert (read.name, await evidence.get_text(read.sha256)) == ("rank0.log", "NCCL WARN")


async def test_a_file_that_slack_does_not_hand_out_is_said_to_be_refused(slack: SlackSandbox) -> None:
    got, _ = await fetched(slack, item(files=[{"id": "F0NOWHERE", "name": "file", "size": 0, "url": ""}]))
    assert [(row.name, row.unread) for row in got.attachments] == [("file", "refused")]
