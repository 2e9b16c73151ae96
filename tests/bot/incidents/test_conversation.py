"""Conversations by `diagnose --replies`: ordinary replies after a diagnosis run no checks and post no second diagnosis."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from graph.incident.answers.safety import SAFE_PREFIX
from tests.support.terminal import rackmedic

pytestmark = pytest.mark.slow


CASE: dict[str, Any] = {
    "profile": "dgx-h100-8",
    "nodes": ["gpu-001", "gpu-002", "gpu-003", "gpu-004"],
    "t0": "2026-05-20T08:17:00Z",
    "ticket": {"text": "job 4711 hangs on gpu-[001-004]"},
    "faults": [{"id": "G07", "node": "gpu-003", "gpu": 5, "t": -420}],
}

# replies in a concluded thread and a word of the answer; empty where any answer, or none, is right
NATURAL: tuple[tuple[str, str], ...] = (
    ("what about gpu-002?", "gpu-002: 23 checks"),
    ("is gpu-001 ok?", "gpu-001: 23 checks"),
    ("how is gpu-003 doing", "GPU fell off the PCIe bus"),
    ("how are the others?", "gpu-[001-002,004]"),
    ("and the other nodes?", "gpu-[001-002,004]"),
    ("what about gpu-007?", "Not in the inventory: gpu-007"),
    ("who is on it?", "Nobody is on it"),
    ("is anybody looking at this?", "Nobody is on it"),
    ("thanks!", "welcome"),
    ("cool, thank you", "welcome"),
    ("approve", "Use the Approve button"),
    ("lgtm, go ahead", "Use the Approve button"),
    ("why?", "GPU fell off the PCIe bus (gpu-003/gpu5)"),
    ("how sure are you?", "98 % sure"),
    ("why do you think it is the GPU", "GPU fell off the PCIe bus"),
    ("why not the network?", "ruled out"),
    ("could it be the network?", "ruled out"),
    ("are you sure it's not ECC", "ruled out"),
    ("did you rule out the cable?", "ruled out"),
    ("show me the kernel log of gpu-003", "fallen off the bus"),
    ("can i see nvidia-smi on gpu-003 please", "gpu-003 · nvidia-smi"),
    ("compare gpu-001 and gpu-003", "differ"),
    ("what's different between gpu-002 and gpu-003", "differ"),
    ("what changed since 08:00?", "Since 08:00 UTC"),
    ("has this happened before?", "Recorded incidents"),
    ("seen this before?", "Recorded incidents"),
    ("is it safe to restart the job?", "No, not on gpu-003"),
    ("can we restart the job?", "No, not on gpu-003"),
    ("is it safe to keep training on gpu-001 and gpu-002?", SAFE_PREFIX),
    ("can I reboot gpu-003?", "node drained"),
    ("what should I do now?", "Approve or reject on its card: Drain gpu-003"),
    ("whats next", "Approve or reject on its card: Drain gpu-003"),
    ("what happens if I approve?", "If approved: Drain gpu-003"),
    ("what exactly will run if I press approve?", "If approved: Drain gpu-003"),
    ("who may approve?", "approvers"),
    ("who can approve this?", "approvers"),
    ("summary for my manager", "What: One GPU stopped answering"),
    ("give me a summary for my boss", "What: One GPU stopped answering"),
    ("write that up for a ticket please", "Cause: GPU fell off the PCIe bus"),
    ("drain gpu-001", "No card posted: nothing was found on gpu-001"),
    ("drain gpu-003", "already waiting for approval"),
    ("just reboot gpu-003", "comes later"),
    ("undo that", "nothing to undo"),
    ("put it back into service", "nothing to undo"),
    ("run an nccl test on gpu-001 and gpu-002", "Waiting for approval: nccl1"),
    ("I'll take this one", "is on it"),
    ("assign it to <@U42>", "U42 is on it"),
    ("who are you?", "I am RackMedic"),
    ("what can you see?", "4 hosts: gpu-[001-004]"),
    ("help", "In your own words"),
    ("status?", "GPU fell off the PCIe bus"),
    ("good morning", "Hello"),
    ("what is Xid 79", "NVRM: Xid"),
    ("is it a hardware problem?", ""),
    ("lunch anyone?", ""),
    ("the deploy of the other cluster is at 5", ""),
    ("close it, it was the GPU", "Closed: GPU"),
    ("reopen", "Reopened"),
)


def files(folder: Path, replies: object) -> list[str]:
    case, said = folder / "case.yaml", folder / "replies.yaml"
    case.write_text(yaml.safe_dump(CASE))
    said.write_text(yaml.safe_dump(replies))
    return ["--sandbox", str(case), "--replies", str(said)]


def talk(folder: Path, replies: object) -> dict[str, Any]:
    ran = rackmedic("diagnose", *files(folder, replies), "--json")
    assert ran.returncode == 0, ran.stderr
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


def test_fifty_eight_natural_replies_look_at_nothing_and_each_answer_is_to_the_point(tmp_path: Path) -> None:
    assert len(NATURAL) == 58
    replies = talk(tmp_path, [{"after": "concluded", "by": "ana", "text": text} for text, _ in NATURAL])["replies"]
    assert [row["text"] for row in replies if row["ran"]] == []
    assert {(row["text"], word) for row, (_, word) in zip(replies, NATURAL, strict=True) if word not in row["answer"]} == set()
    assert [(row["text"], card["remedy"]) for row in replies for card in row["cards"]] == [
        ("run an nccl test on gpu-001 and gpu-002", "run_check")
    ]
    assert max(len(row["answer"].splitlines()) for row in replies) <= 16


def test_two_people_who_talk_to_each_other_are_left_alone(tmp_path: Path) -> None:
    lines = [("ana", "@ben did you get lunch?"), ("ben", "not yet, you?"), ("ana", "then let us go together")]
    replies = talk(tmp_path, [{"by": by, "text": text} for by, text in lines])["replies"]
    assert [(row["answer"], row["ran"]) for row in replies] == [("", [])] * 3


def test_only_what_asks_for_a_look_looks(tmp_path: Path) -> None:
    replies = talk(tmp_path, [{"text": "recheck gpu-002"}, {"text": "what about gpu-002?"}])["replies"]
    assert {row["host"] for row in replies[0]["ran"]} == {"gpu-002"}
    assert (replies[0]["intent"], replies[1]["ran"]) == ("recheck", [])


def test_a_question_while_it_looks_waits_for_its_turn(tmp_path: Path) -> None:
    document = talk(tmp_path, [{"after": "diagnosing", "by": "ana", "text": "who is on it?"}])
    assert document["outcome"] == "diagnosed"
    assert document["replies"][0]["answer"].startswith("Nobody is on it.")


def test_stop_while_it_looks_ends_the_look(tmp_path: Path) -> None:
    document = talk(tmp_path, [{"after": "diagnosing", "by": "ana", "text": "stop"}])
    assert document["replies"][0]["answer"].startswith("Stopped.")
    assert document["stats"]["checks"] < 4 * 22


def test_without_json_the_conversation_reads_as_a_thread(tmp_path: Path) -> None:
    out = rackmedic("diagnose", *files(tmp_path, [{"by": "ana", "text": "what about gpu-002?"}])).stdout
    assert "ana  what about gpu-002?\n  gpu-002: 23 checks, read just now, nothing abnormal." in "\n".join(
        map(str.rstrip, out.splitlines())
    )
    assert "host_state · no check" in out


def test_time_goes_on_between_replies_and_the_simulated_machines_age_with_it(tmp_path: Path) -> None:
    replies = talk(tmp_path, [{"text": "what about gpu-002?"}] * 13)["replies"]
    assert "read 11 min ago" in replies[10]["answer"]
    assert "Say `recheck gpu-002` for now." in replies[10]["answer"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ("- {text: hello}\n- {text: 7}\n- {txt: x}\n", (":2: reply 2: text: ", ":3: reply 3: text is missing", "unknown field txt")),
        ("- {text: hello, after: noon}\n", (":1: reply 1: after: 'noon' is none of diagnosing, concluded,",)),
        ("text: hello\n", ("must be a list of at most",)),
        ("[", ("is not YAML",)),
        ("", ("the file is empty",)),
    ],
)
def test_a_bad_file_is_refused_with_all_its_problems(tmp_path: Path, said: str, told: tuple[str, ...]) -> None:
    words = files(tmp_path, [])
    Path(words[-1]).write_text(said)
    ran = rackmedic("diagnose", *words, "--json")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert all(one in ran.stderr for one in told), ran.stderr
