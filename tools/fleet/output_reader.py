"""Turn command output into dated facts, also where it is incomplete, missing or was never asked for. None of these is healthy."""

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Literal

from kb.needle_search import split_lines
from kb.redact import RedactedText, redact, redact_once
from tools.checks.check_types import Check, Command, clean_output
from tools.evidence import EvidenceStore
from tools.fact import Fact, Status, build_unobserved_fact
from tools.fleet.answers import CheckAnswer
from tools.transport import AccessBarrier, CommandResult

# Facts for checks that did not run: missing tool, or GPUs in use. Neither healthy nor sick.

# value of the `check.skipped` fact; a parser may also use `no_device`
SkipReason = Literal["busy", "not_known", "no_tool"]


def build_skipped_fact(check: Check, why: SkipReason, says: str) -> Fact:
    """Return the fact that a check did not run."""
    return Fact(check.id, "check.skipped", why, line=says[:300], attrs={"text": check.tool} if why == "no_tool" else {})


def find_missing_tool(check: Check, rans: Mapping[Command, CommandResult]) -> Fact | None:
    """Return the fact that a required command is not installed, with how to get it, or None."""
    for command, result in rans.items():
        if not command.optional and is_missing_program(result):
            return build_skipped_fact(check, "no_tool", f"{explain_not_started(command, result)}; {check.id} needs {check.tool or 'it'}")
    return None


def find_nothing_installed(check: Check, rans: Mapping[Command, CommandResult]) -> Fact | None:
    """Return the fact that no program of a passive check is installed, or None.

    With `check.without`, what only such a program would know is absent.
    """
    if not rans or not all(command.optional and is_missing_program(result) for command, result in rans.items()):
        return None
    text = "; ".join(dict.fromkeys(explain_not_started(command, result) for command, result in rans.items()))
    if check.without:
        return Fact(check.id, check.without, status=Status.ABSENT, line=text[:300])
    return build_skipped_fact(check, "no_tool", text)


_SHELL = r"-?(?:/(?:usr/)?bin/)?(?:ba|da|a|k|z)?sh"
_PROGRAM = r"['\"‘]?(?P<{}>[^'\"’:\s]{{1,200}})['\"’]?"
# Launchers' messages for a missing program: coreutils, util-linux, sudo, Slurm's step daemon and the shell of our
# command. Lines of login scripts (`/etc/profile.d/x.sh: line 3: pyenv: command not found`) and a tool's own `not found`
# must not match.
_MISSING_PATTERN = re.compile(
    rf"(?:^|: )(?:timeout|stdbuf|nohup|chroot): failed to run command {_PROGRAM.format('run')}: No such file"
    rf"|^(?:setpriv|ionice|runuser|taskset): failed to execute {_PROGRAM.format('executed')}: No such file"
    rf"|^(?:env|nice|xargs): {_PROGRAM.format('env')}: No such file"
    rf"|^sudo: {_PROGRAM.format('sudo')}: command not found$"
    rf"|^(?:{_SHELL}|(?:/\S{{1,200}}/)?rackmedic-(?:look|act)): (?:(?:line )?\d+: )?(?:exec: )?{_PROGRAM.format('shell')}: (?:command )?not found$"
    rf"|(?:^|: )execve?\(\): {_PROGRAM.format('execve')}: No such file",
    re.MULTILINE,
)
# a program whose shared library is missing counts as not installed
_BROKEN_PATTERN = re.compile(r"(?m)^.{0,200}error while loading shared libraries.{0,200}$")
NODE_KIT_PROGRAMS = ("rackmedic-look", "rackmedic-act")


def is_missing_program(result: CommandResult) -> bool:
    """Return whether the program is missing: exit status 127, or a launcher's message."""
    return result.exit_status == 127 or (
        not result.stdout.strip()
        and bool(_MISSING_PATTERN.search(_decode_stderr(result)) or _BROKEN_PATTERN.search(_decode_stderr(result)))
    )


def explain_not_started(command: Command, result: CommandResult) -> str:
    """Return why the command did not start, naming the program."""
    if broken := _BROKEN_PATTERN.search(_decode_stderr(result)):
        return f"{_get_program_name(command.argv[0])} cannot be run: {broken[0].strip()}"[:300]
    match = _MISSING_PATTERN.search(_decode_stderr(result))
    name = _get_program_name(next((word for word in match.groups() if word), command.argv[0]) if match else command.argv[0])
    return "the node kit is not installed" if name in NODE_KIT_PROGRAMS else f"{name} is not installed"


def _decode_stderr(result: CommandResult) -> str:
    return result.stderr.decode("utf-8", "replace")


def _get_program_name(path: str) -> str:
    return path.rpartition("/")[2]


# Why a command's output is incomplete or missing: transport, sudo, a missing program or setting.

REFUSAL_TEXTS = (
    "a password is required",
    "not allowed to execute",
    "is not in the sudoers",
    "permission denied",
    "operation not permitted",
    "access denied",
)
# the node kit's answer to a query that is newer than the kit
OLD_KIT_PATTERN = re.compile(r"rackmedic-look: no such question: this kit is ([0-9a-f]{12})")


def build_no_target_fact(check: Check, setting: str) -> Fact:
    """Return the fact that the site configured no target. Neither healthy nor sick."""
    return Fact(check.id, "check.no_target", setting, line=f"could not look: no target is set ({setting} in the inventory)")


def build_truncated_fact(check: Check, command: Command, stand_in: Command) -> Fact:
    """Return the fact that an output exceeded its cap and its stand-in was read instead."""
    line = f"{check.id}.{command.name} is longer than {check.cap} bytes: read were only {stand_in.only}; all else was left out"
    return Fact(check.id, "check.left_out", command.name, line=line)


def is_incomplete(result: CommandResult) -> bool:
    """Return whether the output may be cut: counts from half a table are wrong."""
    return result.timed_out or result.truncated or result.exit_status is None


def find_trouble(check: Check, command: Command, result: CommandResult) -> Fact | None:
    """Return why the answer is not fully trusted, or None. Exit statuses with output are left to the parser."""
    name = f"{check.id}.{command.name}"
    if result.timed_out:
        return build_unobserved_fact(check.id, Status.TIMEOUT, f"{name}: no answer within {check.timeout:g} s")
    if result.exit_status is None and not result.truncated:
        return build_unobserved_fact(check.id, Status.UNREACHABLE, f"{name}: connection lost before the command ended")
    if result.truncated:
        note = "; what is older was left out" if command.stands_in_for else ""
        return build_unobserved_fact(check.id, Status.UNREADABLE, f"{name}: output cut at {check.cap} bytes{note}")
    return _explain_failure(check, command, result, name)


def find_telling_line(complaint: str) -> str:
    """Return the first refusal in a complaint, else its first line."""
    lines = [line.strip() for line in split_lines(clean_output(complaint)) if line.strip()]
    refusal = (line for line in lines if any(word in line.lower() for word in REFUSAL_TEXTS))
    return next(refusal, lines[0] if lines else "no reason given")[:200]


def _explain_failure(check: Check, command: Command, result: CommandResult, name: str) -> Fact | None:
    silent = not result.stdout.strip()
    complaint = result.stderr.decode("utf-8", "replace").strip()
    if old := OLD_KIT_PATTERN.search(complaint):
        reason = f"its node kit is {old[1]}, another than this RackMedic's, and does not know this question: install the newest (`rackmedic node-kit`)"
        return build_unobserved_fact(check.id, Status.DENIED, f"{name}: {reason}")
    if is_missing_program(result):
        return (
            None
            if command.optional
            else build_unobserved_fact(check.id, Status.UNREADABLE, f"{name}: {explain_not_started(command, result)}")
        )
    if result.exit_status and silent and any(word in complaint.lower() for word in REFUSAL_TEXTS):
        return build_unobserved_fact(check.id, Status.DENIED, f"{name}: {find_telling_line(complaint)}")
    if result.exit_status == 126:
        return (
            None
            if command.optional
            else build_unobserved_fact(check.id, Status.UNREADABLE, f"{name}: cannot be run: {find_telling_line(complaint)}")
        )
    if silent and not complaint:
        return (
            None
            if command.optional
            else build_unobserved_fact(check.id, Status.UNREADABLE, f"{name}: no output (exit status {result.exit_status})")
        )
    return None


# Turn command output into dated facts: store evidence, parse, report trouble.

MIN_THREAD_CHARS = 1 << 20  # longer texts are parsed in a thread, so that they do not block the event loop


class OutputReader:
    """Reader of output, which it stores as one incident's evidence."""

    def __init__(self, evidence: EvidenceStore, incident: str) -> None:
        self._evidence, self._incident = evidence, incident

    async def read_command_facts(
        self, host: str, check: Check, command: Command, result: CommandResult, now: datetime, boot_id: str = ""
    ) -> Sequence[Fact]:
        sha, facts = await self._read_command(check, command, result)
        return [fact.locate(host, time=now, boot_id=fact.boot_id or boot_id, sha256=sha) for fact in facts]

    async def read_check_facts(
        self, host: str, check: Check, rans: Mapping[Command, CommandResult], now: datetime, boot_id: str
    ) -> list[Fact]:
        """Return the facts of all commands. Where a stand-in was read, it decides what a truncated output lacks."""
        facts_by_command = {
            command: await self.read_command_facts(host, check, command, result, now, boot_id) for command, result in rans.items()
        }
        for command, stand_in in ((command, check.find_stand_in(command)) for command in rans):
            if stand_in and stand_in in rans and _stand_in_was_read(facts_by_command[stand_in], command, stand_in, rans[stand_in]):
                is_readable = not any(fact.status.blind for fact in facts_by_command[stand_in])
                cut = build_truncated_fact(check, command, stand_in).locate(
                    host, time=now, boot_id=boot_id, sha256=_find_digest(facts_by_command[command])
                )
                facts_by_command[command] = [
                    *(fact for fact in facts_by_command[command] if fact.status is Status.OK),
                    *([cut] if is_readable else []),
                ]
        return [fact for facts in facts_by_command.values() for fact in facts]

    async def _read_command(self, check: Check, command: Command, result: CommandResult) -> tuple[str, Iterable[Fact]]:
        problem = _redact_trouble(find_trouble(check, command, result))
        text = await _redact_output(result.text + ("\n" + result.stderr.decode("utf-8", "replace") if result.stderr else ""))
        sha = await self._evidence.put_text(self._incident, text) if text.strip() else ""
        if command.silence and not text.strip() and result.exit_status == 0:
            return sha, check.parse_output(command.silence)
        facts = [problem] if problem else []
        if check.statuses is not None and (problem or result.exit_status not in check.statuses):
            reason = f"{check.id}.{command.name}: exit status {result.exit_status}: {text.strip()[:200]}"
            return sha, facts or [build_unobserved_fact(check.id, Status.UNREADABLE, reason)]
        if is_incomplete(result) and not check.exclusive:
            facts += (
                await _parse_output(check, await _redact_output(result.text[: result.text.rfind("\n") + 1]))
                if check.partial and "\n" in result.text
                else ()
            )
        elif result.stdout.strip() or (problem is None and text.strip() and result.exit_status != 126 and not is_missing_program(result)):
            facts += await _parse_output(check, text)
        return sha, facts


async def _redact_output(text: str) -> RedactedText:
    """Redact before parsing: facts go into evidence, the store, a model and cards."""
    return await asyncio.to_thread(redact_once, text) if len(text) > MIN_THREAD_CHARS else redact_once(text)


def _redact_trouble(trouble: Fact | None) -> Fact | None:
    """The line quotes the host."""
    return replace(trouble, line=redact(trouble.line)) if trouble else None


async def _parse_output(check: Check, text: RedactedText) -> Sequence[Fact]:
    return await asyncio.to_thread(check.parse_output, text) if len(text) > MIN_THREAD_CHARS else check.parse_output(text)


def _stand_in_was_read(facts: Sequence[Fact], command: Command, stand_in: Command, result: CommandResult) -> bool:
    """An empty result counts only from the program that printed the truncated output."""
    nothing = not facts and bool(result.stdout.strip()) and command.argv[0] == stand_in.argv[0]
    return nothing or any(fact.key for fact in facts)


def _find_digest(facts: Sequence[Fact]) -> str:
    return next((fact.sha256 for fact in facts if fact.sha256), "")


def build_answer(
    host: str, check: Check, found: Sequence[Fact], now: datetime, known_boot: str, seconds: float, lacking: Fact | None = None
) -> CheckAnswer:
    """Build the answer, dated by the boot id in its facts, else by `known_boot`.

    `lacking`: no program of the check is installed. A check without facts is unobserved.
    """
    facts = (
        check.settle(drop_duplicates(found)) if check.settle and not lacking else drop_duplicates([*found, *([lacking] if lacking else ())])
    )
    facts = facts or [build_unobserved_fact(check.id, Status.UNREADABLE, f"{check.id}: its commands said nothing")]
    boot = find_boot_id(facts) or known_boot
    dated = tuple(
        fact if fact.host and (fact.boot_id or not boot) else fact.locate(host, time=now, boot_id=fact.boot_id or boot, sha256=fact.sha256)
        for fact in facts
    )
    blinds = [fact.line for fact in dated if (not fact.key and fact.status.blind) or is_unobserved_fact(fact)]
    return CheckAnswer(host, check.id, dated, seconds, could_not="; ".join(dict.fromkeys(blinds)))


def is_unobserved_fact(fact: Fact) -> bool:
    """Return whether the fact only says that there was nothing to look at: no tool, device or job log."""
    return fact.key == "check.skipped" or (fact.key == "job.log" and fact.value is False)


def find_boot_id(facts: Iterable[Fact]) -> str:
    """Return the boot id among the facts, or ""."""
    return next((str(fact.value) for fact in facts if fact.key == "host.boot_id" and fact.value), "")


def drop_duplicates(facts: Sequence[Fact]) -> list[Fact]:
    """Drop repeats, which arise when several commands print the same."""
    fact_by_identity: dict[tuple[object, ...], Fact] = {}
    for fact in facts:
        attrs = repr(fact.attrs) if fact.attrs else ""
        fact_by_identity.setdefault((fact.key, fact.device, repr(fact.value), fact.status, fact.line, fact.time, fact.boot_id, attrs), fact)
    return list(fact_by_identity.values())


def build_unobserved_answer(
    host: str, check: Check, status: Status, why: str, now: datetime, barrier: AccessBarrier = AccessBarrier.OTHER
) -> CheckAnswer:
    """Return the answer for a host that could not be asked, with the barrier if known."""
    attrs = {} if barrier is AccessBarrier.OTHER else {"barrier": barrier.value}
    return CheckAnswer(host, check.id, (replace(build_unobserved_fact(check.id, status, why, host), time=now, attrs=attrs),), could_not=why)
