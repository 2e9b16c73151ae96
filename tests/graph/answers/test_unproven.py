"""No answer says that all is well while an attached file or a report contradicts it."""

import pytest

from graph.extraction.complaints import find_physical_reports
from graph.extraction.pasted_text import store_attachments
from graph.extraction.uploaded_files import build_attachment
from graph.incident.answers.remedy_requests import NO_CARD_PREFIX
from graph.incident.answers.safety import SAFE_PREFIX
from graph.state import Attachment, InboxItem
from tests.support.talk import Talk, case_of

SEL = """   1 | 05/20/2026 | 02:11:09 | Power Supply #0x51 | Power Supply AC lost | Asserted
   2 | 05/20/2026 | 02:14:40 | Memory #0x87 | Uncorrectable ECC | Asserted | DIMM_A3
   3 | 05/20/2026 | 03:05:40 | Critical Interrupt #0x9a | Bus Fatal Error | Asserted | PCIe slot 4
"""
SMI_HEAD = """==============NVSMI LOG==============

Attached GPUs                             : 8
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    ECC Errors
        Volatile
            DRAM Uncorrectable            : 14
    Remapped Rows
        Pending                           : Yes
"""
XID_79 = "gpu-003 kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus."
NETDEV = "gpu-003: kernel: NETDEV WATCHDOG: ens3f0 (mlx5_core): transmit queue 7 timed out"
SEL_LINE = "from gpu-003's BMC: 3 | 05/20/2026 | 02:14:40 | Memory #0x87 | Uncorrectable ECC | Asserted | DIMM_A3"
# reports about gpu-003, and a word that every answer must contain
TOLD = [
    (XID_79, "Xid 79"),
    ("May 20 03:09:30 " + XID_79, "Xid 79"),
    ("gpu-003 kernel: NVRM: Xid (PCI:0000:9b:00): 94, pid=88123, Contained ECC error", "Xid 94"),
    (NETDEV, "ens3f0"),
    (SEL_LINE, "Uncorrectable ECC"),
    (SEL_LINE.replace("from gpu-003's BMC", "ipmitool sel list on gpu-003"), "Uncorrectable ECC"),
    ("May 20 03:05:11 gpu-003 kernel: mlx5_core 0000:5e:00.0: poll_health:825: device's health compromised - reached miss count", "health"),
    ("May 20 03:05:11 gpu-003 kernel: mlx5_core 0000:5e:00.0: poll_health:825: device's health compromised\nis gpu-003 ok?", "health"),
    ("gpu-003 is making a weird noise and smells of smoke", "smoke"),
    ("there is water under gpu-003", "water"),
    ("the PSU light of gpu-003 is amber", "amber"),
]


async def well(text: str = "job 4711 hangs on gpu-[001-004]", *given: Attachment) -> Talk:
    """Return a thread over healthy hosts."""
    talk = await Talk.of(case_of())
    if given:
        await tells(talk, text, *given)
    return talk


async def tells(talk: Talk, text: str, *given: Attachment) -> str:
    """Return the answer to a message that is parsed and stored as on arrival."""
    from graph.dialogue.read import parse_message
    from graph.incident.visibility import build_vocabulary
    from tests.support.talk import HERE

    talk.stage.wait(60)
    talk.turns += 1
    at, ports = talk.stage.clock.now(), talk.ports
    said = parse_message(text, build_vocabulary(ports.inventory, ports.taxonomy, ports.fleet.checks, HERE), at)
    item = InboxItem(
        id=f"told-{talk.turns}",
        kind=said.kind,
        incident="inc-1",
        at=at,
        user="U1",
        text=text,
        attachments=given,
        data=said.build_item_data(),
    )
    report = await talk._turn(await store_attachments(item, ports.evidence))
    return report.reply or report.headline


async def test_well_machines_are_safe_as_far_as_was_seen() -> None:
    talk = await well()
    assert (await talk.says("is it safe to restart the job?")).startswith(SAFE_PREFIX)
    assert (await talk.says("is gpu-003 ok?")).endswith("nothing abnormal.")


@pytest.mark.parametrize(("told", "word"), TOLD)
async def test_what_was_told_of_a_host_stands_against_it_and_the_job(told: str, word: str) -> None:
    talk = await well()
    await tells(talk, told)
    for asks in (
        "is it safe to restart the job?",
        "can we restart?",
        "is it safe to use gpu-003?",
        "is gpu-003 ok?",
        "is everything fine?",
    ):
        answer = await talk.says(asks)
        assert SAFE_PREFIX not in answer, asks
        assert word in answer, asks
    assert not (await talk.says("is gpu-003 ok?")).endswith("nothing abnormal.")
    refusal = await talk.says("drain gpu-003")
    assert refusal.startswith(NO_CARD_PREFIX)
    assert word in refusal
    assert "State=DRAIN" in refusal
    assert (await talk.says("is it safe to use gpu-001?")).startswith(SAFE_PREFIX), "it was told of gpu-003"


@pytest.mark.parametrize("asks", ["is it safe to restart the job?", "is it safe to use gpu-001?", "can i put gpu-003 back to work"])
@pytest.mark.parametrize(
    ("given", "word"),
    [
        (build_attachment("sel.txt", SEL), "Bus Fatal Error"),
        (build_attachment("smi.txt", SMI_HEAD), "14"),
        (build_attachment("x.log", "Foo bar reported a fatal failure\nthe frobnicator is degraded\n"), "not understood"),
        (Attachment(name="screen.png", size=10, unread="image"), "screen.png"),
        (build_attachment("empty.log", ""), "empty.log"),
    ],
)
async def test_a_file_of_no_known_host_counts_for_every_host(given: Attachment, word: str, asks: str) -> None:
    talk = await well("SEL of gpu-002 and nvidia-smi of gpu-003 attached", given)
    answer = await talk.says(asks)
    assert SAFE_PREFIX not in answer
    assert word in answer


async def test_all_events_of_a_handed_in_log_are_in_the_headline() -> None:
    talk = await well("SEL of gpu-002 attached", build_attachment("sel.txt", SEL))
    report = (await talk.rows()).report
    assert report
    for word in ("AC lost", "Uncorrectable ECC", "Bus Fatal Error"):
        assert word in report.headline


async def test_a_report_stands_until_people_say_that_it_is_over() -> None:
    talk = await well()
    assert "No check of mine can judge" in await tells(talk, "gpu-002 smells of smoke")
    await talk.says("recheck gpu-002")
    assert SAFE_PREFIX not in await talk.says("can we restart?")
    await talk.says("gpu-001 is fixed")
    assert SAFE_PREFIX not in await talk.says("can we restart?"), "that was another host"
    await talk.says("gpu-002 is fixed")
    assert SAFE_PREFIX in await talk.says("can we restart?")


async def test_a_report_beside_a_question_is_heard() -> None:
    talk = await well()
    answer = await talk.says("gpu-002 smells of smoke, is it safe to restart?")
    assert SAFE_PREFIX not in answer
    assert SAFE_PREFIX not in await talk.says("is it safe to restart the job?")


async def test_an_old_line_that_was_pasted_is_told_with_its_age_and_still_stands() -> None:
    talk = await well()
    first = await tells(talk, "Jan 20 03:00:01 gpu-004 kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus.")
    assert "likely" not in first
    for asks in ("is gpu-004 ok?", "is gpu-004 healthy?", "is it safe to restart the job?"):
        answer = await talk.says(asks)
        assert "days ago, not since" in answer
        assert SAFE_PREFIX not in answer


async def test_lines_of_an_unknown_host_are_reported_as_such() -> None:
    talk = await well()
    first = await tells(talk, "dgx-77 kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=1, GPU has fallen off the bus.")
    assert "dgx-77" in first
    assert "inventory" in first
    answer = await talk.says("is it safe to restart the job?")
    assert SAFE_PREFIX not in answer
    assert "dgx-77" in answer


@pytest.mark.parametrize("asks", ["what did you find in {}?", "what did you read in {}?", "show me {}", "what about the file i attached?"])
@pytest.mark.parametrize("name", ["dmesg.log", "sel_bad.txt", "ipmi.txt", "nvidia-smi.log"])
async def test_a_question_about_a_file_is_answered_from_the_file(name: str, asks: str) -> None:
    talk = await well("here is a log", build_attachment(name, SEL))
    answer = await talk.says(asks.format(name))
    assert answer.startswith(f"{name} (handed in): 3 kinds of trouble")
    assert "Bus Fatal Error" in answer


async def test_an_empty_file_is_acknowledged() -> None:
    talk = await well("here is a log", build_attachment("empty.log", ""))
    assert "empty.log (handed in): not read" in await talk.says("what did you read in empty.log?")


@pytest.mark.parametrize(
    "text",
    [
        "gpu-002 smells of smoke",
        "sparks came out of the rack",
        "the fan of gpu-002 rattles",
        "gpu-002 beeps all the time",
        "coolant is leaking onto gpu-003",
        "somebody spilled coffee over it",
        "a red LED is blinking on gpu-001",
        "the case is hot to the touch",
        "it sounds weird",
        "the cable is scorched",
        "gpu-004 was dropped when we moved it",
        "it smells burnt, is that bad?",
    ],
)
def test_what_people_sense_is_a_report(text: str) -> None:
    assert find_physical_reports(text)


@pytest.mark.parametrize(
    "text",
    [
        "the job leaks memory",
        "there is a memory leak in the loader",
        "gpu-burn passed on gpu-002",
        "run a smoke test first",
        "no smoke, no smell",
        "is there smoke?",
        "the gradient noise is high",
        "packets were dropped on ens3f0",
        "the spark job on gpu-002 hangs",
        "GPU fell off the bus",
        "the low watermark was reached",
        "job 4711 hangs with an NCCL timeout",
    ],
)
def test_other_words_are_none(text: str) -> None:
    assert not find_physical_reports(text)
