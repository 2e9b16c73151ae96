"""Files that people hand in are acknowledged: by name, size and what was found in them, or by why they were not read. Replies too."""

from typing import get_args

import pytest

from graph.engine.abnormal import is_odd
from graph.reading.files import UNREAD, acknowledged, as_text, handed_in, in_words
from graph.reading.pasted import read_pasted
from graph.report import FileRead
from graph.state import Attachment, Item, ItemKind, Unread
from tests.graph.test_flow import LOST_ON_N2, Desk, world
from tests.support.fakes_graph import item
from tools.checks import CHECKS

LOG = """2026-05-20T02:40:00Z [rank0]: step 1 loss 2.3
2026-05-20T02:41:11Z [rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
2026-05-20T02:51:10Z [rank1]: [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=184, OpType=ALLREDUCE, Timeout(ms)=600000)
"""
KERNEL = "[Wed May 20 02:41:10 2026] NVRM: Xid (PCI:0000:9b:00): 79, pid=1234, name=python3, GPU has fallen off the bus.\n"


def read(name: str, text: str, size: int = 0) -> FileRead:
    given = Attachment(name=name, size=size or len(text))
    return acknowledged(given, read_pasted(text, CHECKS).facts, is_odd)


def test_a_file_is_acknowledged_by_its_size_and_what_was_found_in_it() -> None:
    assert in_words(read("rank0.log", LOG, 1_234_567)) == "1.2 MB: 2 kinds of errors, first cuda oom at 02:41 UTC"
    assert in_words(read("dmesg", KERNEL)).endswith(
        "bytes: Xid 79 on 0000:9b:00.0: GPU fell off the PCIe bus: driver reads all ones at 02:41 UTC"
    )
    assert in_words(read("notes.txt", "hello\nworld\n", 12)) == "12 bytes: nothing that I know as an error"


def test_every_reason_why_a_file_was_not_read_says_what_to_send_instead() -> None:
    assert set(UNREAD) == set(get_args(Unread)) - {""}
    for why, words in UNREAD.items():
        assert in_words(FileRead(name="x", size=9000, unread=why)) == f"9.0 kB: not read, {words}"
        assert ": " in words
    assert in_words(FileRead(name="x", unread="refused")).startswith("of no known size: not read")


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", ""), (b"Xid 79", ""), ("Xid 79".encode("utf-16"), ""), (b"RIFF is a word", ""), (b"RIFF\0\0\0\0WEBP", "image"),
        (b"BM", ""), (b"%PDF-1.4", "document"), (b"\x7fELF\0", "binary"), (b"a\0", "binary"),
    ],
)  # fmt: skip
def test_text_is_told_from_what_is_none(raw: bytes, why: str) -> None:
    assert as_text(raw)[1] == why


def test_what_a_terminal_attaches_is_told_from_text_too() -> None:
    assert handed_in("a.log", "Xid 79").unread == ""
    assert handed_in("core", "\x7fELF\0\0").model_dump(exclude_defaults=True) == {"name": "core", "size": 6, "unread": "binary"}


DESYNC = Attachment(name="rank3.log", text="joblog: job.error rank3 collective_desync")
PICTURE = Attachment(name="screen.png", size=80_000, unread="image")


def handing_in(text: str, kind: ItemKind, *files: Attachment, name: str = "") -> Item:
    return item(text, kind, name, attachments=files)


async def test_files_of_a_mention_and_of_a_reply_are_acknowledged_once_each() -> None:
    desk = Desk(world(LOST_ON_N2))
    report = await desk.turn(handing_in("n2 hangs", "mention", DESYNC, PICTURE))
    assert [(row.name, row.kinds, row.unread) for row in report.files] == [("rank3.log", 1, ""), ("screen.png", 0, "image")]
    assert report.files[0].size == len(DESYNC.text)
    assert "files" not in (await desk.state())["turn"]
    again = await desk.turn(handing_in("and this one", "reply", Attachment(name="empty.log", text="all is well")))
    assert [(row.name, row.kinds) for row in again.files] == [("empty.log", 0)]
    assert (await desk.turn(item("status", "status"))).files == ()


async def test_a_log_that_comes_with_a_question_is_read_like_any_other() -> None:
    desk = Desk(world())
    await desk.turn(item("n2 hangs"))
    report = await desk.turn(handing_in("why?", "why", DESYNC))
    assert [row.name for row in report.files] == ["rank3.log"]
    assert report.outcome == "diagnosed"
    stays = await desk.turn(handing_in("status", "status", name="later"))
    assert stays.reply


async def test_what_was_pasted_is_read_and_is_no_file() -> None:
    report = await Desk(world()).turn(item(f"n2 hangs\n```\n{DESYNC.text}\nand more of it\n```"))
    assert report.files == ()


async def test_of_no_file_nothing_is_stored() -> None:
    desk = Desk(world(LOST_ON_N2))
    await desk.turn(item("n2 hangs"))
    state = await desk.state()
    assert "files" not in state["report"]
    assert "files" not in state["turn"]
