"""A dry run reads an action's preconditions, changes nothing, and reports what it cannot observe."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.fakes_nodekit import BOOT, OTHER_BOOT, Node
from tools.action import Action, Condition
from tools.execution.build import ActionRequest, HostIdentity, build_action, find_execution_host
from tools.execution.conditions import (
    PLAIN_READS,
    ConditionResult,
    find_unmet_conditions,
    is_condition_met,
    preview_conditions,
    read_condition,
)
from tools.execution.drain_status import SLURM_DRAINED, read_drain_status
from tools.execution.kit import get_current_kit_version
from tools.execution.previews import CancelPreview, DeletePreview, OldFile, preview_cancel, preview_delete
from tools.inventory.inventory import parse_inventory
from tools.nodekit.generate import ACT_COMMAND, CONDITION_FUNCTIONS, LOOK_COMMAND
from tools.remedies import REMEDIES
from tools.transport import CommandResult, Unreachable

FLEET = parse_inventory({"groups": {"h100": {"hosts": "gpu-[001-004]", "controller": "head"}, "heads": {"hosts": "head"}}})
BDF = "0000:9b:00.0"
QUERY = f"nvidia-smi --query-compute-apps=pid --format=csv,noheader -i {BDF}"
SINFO = "sinfo -h -N -n gpu-001 -O StateLong:20,StateComplete:80"


def row(state: str, whole: str) -> str:
    """Return a line in sinfo's columns."""
    return f"{state:<20}{whole:<80}\n"


BOOT_READ = "cat /proc/sys/kernel/random/boot_id"


@dataclass
class Fleet:
    """Hosts with an answer per command line."""

    answers: Mapping[tuple[str, str], CommandResult | str | Unreachable]
    asked: list[tuple[str, str]] = field(default_factory=list)
    kit: CommandResult = field(default_factory=lambda: CommandResult(get_current_kit_version().encode()))

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        if tuple(argv) == (*ACT_COMMAND, "version"):
            return self.kit
        self.asked.append((host, " ".join(argv)))
        answer = self.answers.get(self.asked[-1], CommandResult(b"", b"command not found", 127))
        if isinstance(answer, Unreachable):
            raise answer
        return CommandResult(answer.encode()) if isinstance(answer, str) else answer

    async def aclose(self) -> None:
        return None


def _action(remedy: str, **args: str) -> Action:
    row, host = REMEDIES[remedy], FLEET.hosts["gpu-001"]
    return build_action(
        ActionRequest(remedy, args, "inc-1"),
        host,
        find_execution_host(row, host, FLEET.hosts),
        HostIdentity(BOOT),
        policy="p",
        catalogue="c",
    )


async def test_every_condition_is_told_with_what_was_seen() -> None:
    fleet = Fleet(
        {("gpu-001", BOOT_READ): f"{BOOT}\n", ("gpu-001", QUERY): "4711\n4712\n", ("head", SINFO): row("drained", "idle+drain") * 2}
    )
    assert await preview_conditions(_action("gpu_reset", bdf=BDF), fleet, controller="head") == [
        ConditionResult("not booted since it was looked at", True, BOOT),
        ConditionResult("no process uses this GPU", False, "4711\n4712"),
        ConditionResult("the node is drained and runs no job", True, "drained idle+drain", "drained"),
    ]
    assert fleet.asked == [("gpu-001", BOOT_READ), ("gpu-001", QUERY), ("head", SINFO)]


@pytest.mark.parametrize(
    "answer",
    [
        Unreachable("gpu-001", "no route"),
        CommandResult(b"", exit_status=None),
        CommandResult(b"", b"nvidia-smi: not found", 127),
        CommandResult(b"", timed_out=True, exit_status=124),
    ],
)
async def test_what_cannot_be_looked_at_is_neither_true_nor_false(answer: Any) -> None:
    fleet = Fleet({("gpu-001", BOOT_READ): answer, ("gpu-001", QUERY): answer, ("head", SINFO): answer})
    seen = await preview_conditions(_action("gpu_reset", bdf=BDF), fleet, controller="head")
    assert [one.ok for one in seen] == [None, None, None]
    assert all(one.saw for one in seen)


@pytest.mark.parametrize(
    ("kit", "says", "saw"),
    [
        (CommandResult(b"0123456789ab\n"), "its node kit is this RackMedic's", "version 0123456789ab, not"),
        (CommandResult(b"", b"sudo: a password is required\n", 1), "its node kit can be used", "sudo: a password is required"),
    ],
)
async def test_an_old_or_missing_kit_is_reported_before_the_approval(kit: CommandResult, says: str, saw: str) -> None:
    fleet = Fleet({("gpu-001", BOOT_READ): f"{BOOT}\n", ("gpu-001", QUERY): "", ("head", SINFO): row("drained", "idle+drain")}, kit=kit)
    seen = await preview_conditions(_action("gpu_reset", bdf=BDF), fleet, controller="head")
    assert [one.ok for one in seen] == [True, False, True, True]
    assert seen[1].says == says
    assert seen[1].saw.startswith(saw)


async def test_another_boot_shows() -> None:
    seen = await preview_conditions(_action("reboot"), Fleet({("gpu-001", BOOT_READ): OTHER_BOOT}), controller="head")
    assert (seen[0].ok, seen[0].saw) == (False, OTHER_BOOT)


async def test_before_a_claim_only_the_controllers_conditions_are_read_and_only_what_fails_is_told() -> None:
    action = _action("gpu_reset", bdf=BDF)
    assert (
        await find_unmet_conditions(action, Fleet({("head", SINFO): row("drained*", "idle+drain+not_responding")}), controller="head") == []
    )
    fleet = Fleet({("head", SINFO): row("draining", "allocated+drain")})
    assert [(one.ok, one.saw) for one in await find_unmet_conditions(action, fleet, controller="head")] == [
        (False, "draining allocated+drain")
    ]
    assert [one.ok for one in await find_unmet_conditions(action, Fleet({}), controller="head")] == [None]
    assert fleet.asked == [("head", SINFO)]


@pytest.mark.parametrize(
    ("printed", "ok"),
    [
        (row("drained", "idle+drain"), True),
        (row("drained", "idle+drain") + row("drained", "idle+drain"), True),
        (row("drained", "idle+drain") + row("idle", "idle"), False),
        ("", False),
        (row("drained*", "idle+drain+not_responding"), True),
        (row("drainedx", "idle+drain"), False),
        (row("draining", "allocated+drain"), False),
        (row("inval", "idle+drain+invalid_reg"), True),
        (row("inval", "idle+drain+invalid_reg+not_responding"), True),
        (row("inval", "down+drain+invalid_reg"), True),
        (row("inval", "allocated+drain+invalid_reg"), False),
        (row("inval", "mixed+drain+invalid_reg"), False),
        (row("inval", "idle+completing+drain+invalid_reg"), False),
        (row("inval", "idle+drain+invalid_reg") + row("inval", "mixed+drain+invalid_reg"), False),
    ],
)
def test_a_node_of_several_partitions_is_drained_when_all_of_them_say_so(printed: str, ok: bool) -> None:
    assert is_condition_met(SLURM_DRAINED, printed.strip()) is ok


async def test_what_stands_in_the_way_is_told_in_slurms_word_and_a_word_that_hides_a_job_with_the_whole_state() -> None:
    host = FLEET.hosts["gpu-001"]
    for printed, told in (
        (row("mixed", "mixed") * 40, "mixed"),
        (row("drained", "idle+drain") * 40 + row("idle", "idle"), "drained\nidle"),
        (row("inval", "mixed+drain+invalid_reg") * 3, "inval (mixed+drain+invalid_reg)"),
    ):
        seen = await read_drain_status(host, Fleet({("head", SINFO): printed}))
        assert (seen.ok, seen.saw) == (False, told)


# -- plain reads in place of the kit's functions -------------------------------------------------------------------------

STAT = "4711 ({}) S " + " ".join(str(n) for n in range(4, 22)) + " 123456 23 24\n"


@pytest.mark.parametrize(
    ("words", "file", "text", "prints"),
    [
        (("@proc_start", "4711"), "4711/stat", STAT.format("python3"), "123456"),
        (("@proc_start", "4711"), "4711/stat", STAT.format("a) R 1 (b"), "123456"),
        (("@proc_start", "4711"), "4711/stat", None, "gone"),
        (("@module_loaded", "nvidia_peermem"), "modules", "nvidia_peermem 1 0 - Live\n", "yes"),
        (("@module_loaded", "nvidia_peermem"), "modules", "nvidia_peermem_x 1 0 - Live\n", "no"),
    ],
)
async def test_a_plain_read_sees_what_the_kits_function_sees(
    tmp_path: Path, words: tuple[str, ...], file: str, text: str | None, prints: str
) -> None:
    Node(tmp_path)
    path = tmp_path / "proc" / file
    path.parent.mkdir(exist_ok=True)
    if text is not None:
        path.write_text(text)
    body = (tmp_path / "sbin/rackmedic-act").read_text().split("# --- what a condition may ask")[1].split("# --- remedies")[0]
    script = f"say() {{ printf '%s\\n' \"$*\"; }}\nPROC={tmp_path}/proc\n# {body}\n{words[0][1:]} {words[1]}"
    told = subprocess.run(["dash", "-c", script], capture_output=True, text=True, check=True).stdout.strip()
    missing = CommandResult(b"", f"cat: /proc/{file}: No such file or directory\n".encode(), 1)
    fleet = Fleet({("gpu-001", f"cat /proc/{file}"): missing if text is None else text})
    seen = await read_condition(Condition("node", "it is so", words, prints), "gpu-001", fleet)
    assert (told, seen) == (prints, ConditionResult("it is so", True, prints))


def test_every_function_of_the_kit_has_a_plain_read() -> None:
    assert [name.removeprefix("@") for name in PLAIN_READS] == list(CONDITION_FUNCTIONS)


@pytest.mark.parametrize("stderr", [b"cat: /proc/4711/stat: Permission denied\n", b""])
async def test_a_process_that_may_not_be_read_is_not_gone(stderr: bytes) -> None:
    fleet = Fleet({("gpu-001", "cat /proc/4711/stat"): CommandResult(b"", stderr, 1)})
    assert (await read_condition(Condition("node", "same", ("@proc_start", "4711"), "123"), "gpu-001", fleet)).ok is None
    assert (
        await read_condition(
            Condition("node", "same", ("@proc_start", "4711"), "123"), "gpu-001", Fleet({("gpu-001", "cat /proc/4711/stat"): "odd"})
        )
    ).ok is None


# -- previews of deletions ----------------------------------------------------------------------------------------------------

FILES = " ".join((*LOOK_COMMAND, "cleanup.preview", "72"))
ANSWER = "end 0\ntotal 3214 125600000000\nfile 6000 41875931136 train /tmp/ckpt 1.pt\nfile 4400 8192 root /var/crash/a\n"


TASKS = "squeue -h -r -j 4711 -o %i|%T|%u|%N"
ARRAY = "4711_1|RUNNING|alice|gpu-001\n4711_0|RUNNING|alice|gpu-[001-002]\n4711_2|PENDING|alice|\n"


async def test_what_a_cancel_would_end_is_counted_by_task_whose_and_where() -> None:
    seen = await preview_cancel(_action("cancel_job", job="4711"), Fleet({("head", TASKS): ARRAY}))
    assert seen == CancelPreview({"RUNNING": 2, "PENDING": 1}, ("alice",), ("gpu-001", "gpu-002"))
    assert await preview_cancel(_action("gpu_reset", bdf=BDF), Fleet({})) is None


@pytest.mark.parametrize(
    "answer",
    [Unreachable("head", "no route"), CommandResult(b"", exit_status=None), CommandResult(b"", b"Invalid job id", 1), "4711|R|a|n[3-1\n"],
)
async def test_a_job_that_could_not_be_asked_about_is_said_so(answer: CommandResult | Unreachable | str) -> None:
    seen = await preview_cancel(_action("cancel_job", job="4711"), Fleet({("head", TASKS): answer}))
    assert seen
    assert seen.why
    assert not seen.states


async def test_what_a_cleanup_would_delete_is_read_with_its_own_hours() -> None:
    largest = (OldFile("/tmp/ckpt 1.pt", 41875931136, "train", 6000), OldFile("/var/crash/a", 8192, "root", 4400))
    assert await preview_delete(_action("cleanup", hours="72"), Fleet({("gpu-001", FILES): ANSWER})) == DeletePreview(
        3214, 125600000000, largest
    )
    fleet = Fleet({})
    assert await preview_delete(_action("gpu_reset", bdf=BDF), fleet) is None
    assert fleet.asked == []


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Unreachable("gpu-001", "no route to host"), "no route to host"),
        (CommandResult(b"", b"usage: rackmedic-look CHECK.NAME | version\n", 64), "its node kit is older than this question"),
        (CommandResult(b"", b"sudo: a password is required\n", 1), "sudo: a password is required"),
        (CommandResult(b"", b"", 124, timed_out=True), "no answer in time"),
        (CommandResult(ANSWER.encode(), b"", None), "no answer in time"),
        (ANSWER.replace("end 0\n", ""), "an answer of another shape"),
        (ANSWER + "file 1 1 root /a\n" * 99, "an answer of another shape"),
        (ANSWER.replace("6000", "-1"), "an answer of another shape"),
        ("", "an answer of another shape"),
    ],
)
async def test_what_would_be_deleted_and_could_not_be_read_is_said(answer: CommandResult | str | Unreachable, why: str) -> None:
    assert await preview_delete(_action("cleanup", hours="72"), Fleet({("gpu-001", FILES): answer})) == DeletePreview(why=why)


async def test_a_search_that_ran_out_of_time_is_not_whole() -> None:
    seen = await preview_delete(_action("cleanup", hours="72"), Fleet({("gpu-001", FILES): ANSWER.replace("end 0", "end 124")}))
    assert seen is not None
    assert (seen.files, seen.whole) == (3214, False)
