"""Turn command output into dated facts: store evidence, parse, report trouble. Missing output is never healthy."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from kb.redact import RedactedText, redact, redact_once
from tools.checks.check_types import Check, Command
from tools.evidence import EvidenceStore
from tools.fact import Fact, Status, build_unobserved_fact
from tools.fleet.answers import CheckAnswer
from tools.fleet.output_trouble import build_truncated_fact, find_trouble, is_incomplete
from tools.fleet.skipped_checks import is_missing_program
from tools.transport import AccessBarrier, CommandResult

MIN_THREAD_CHARS = 1 << 20  # longer texts are parsed in a thread, so that they do not block the event loop


class OutputReader:
    """Reader of output, which it stores as one incident's evidence."""

    def __init__(self, evidence: EvidenceStore, incident: str) -> None:
        self._evidence = evidence
        self._incident = incident

    async def read_command_facts(
        self, host: str, check: Check, command: Command, result: CommandResult, now: datetime, boot_id: str = ""
    ) -> Sequence[Fact]:
        sha, facts = await self._read_command(check, command, result)
        return [fact.locate(host, time=now, boot_id=fact.boot_id or boot_id, sha256=sha) for fact in facts]

    async def read_check_facts(
        self, host: str, check: Check, results: Mapping[Command, CommandResult], now: datetime, boot_id: str
    ) -> list[Fact]:
        """Return the facts of all commands. Where a stand-in was read, it decides what a truncated output lacks."""
        facts_by_command = {
            command: await self.read_command_facts(host, check, command, result, now, boot_id) for command, result in results.items()
        }
        for command in results:
            stand_in = check.find_stand_in(command)
            if stand_in is None or stand_in not in results:
                continue
            if not _stand_in_was_read(facts_by_command[stand_in], command, stand_in, results[stand_in]):
                continue
            digest = _find_digest(facts_by_command[command])
            kept_facts = [fact for fact in facts_by_command[command] if fact.status is Status.OK]
            if not any(fact.status.blind for fact in facts_by_command[stand_in]):
                truncated = build_truncated_fact(check, command, stand_in)
                kept_facts.append(truncated.locate(host, time=now, boot_id=boot_id, sha256=digest))
            facts_by_command[command] = kept_facts
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
            if check.partial and "\n" in result.text:
                complete_lines = result.text[: result.text.rfind("\n") + 1]
                facts += await _parse_output(check, await _redact_output(complete_lines))
        elif result.stdout.strip() or (problem is None and text.strip() and _did_program_run(result)):
            facts += await _parse_output(check, text)
        return sha, facts


def _did_program_run(result: CommandResult) -> bool:
    return result.exit_status != 126 and not is_missing_program(result)


async def _redact_output(text: str) -> RedactedText:
    """Redact before parsing: facts go into evidence, the store, a model and cards."""
    return await asyncio.to_thread(redact_once, text) if len(text) > MIN_THREAD_CHARS else redact_once(text)


def _redact_trouble(trouble: Fact | None) -> Fact | None:
    """Redact the fact's line, because it quotes the host."""
    return replace(trouble, line=redact(trouble.line)) if trouble else None


async def _parse_output(check: Check, text: RedactedText) -> Sequence[Fact]:
    return await asyncio.to_thread(check.parse_output, text) if len(text) > MIN_THREAD_CHARS else check.parse_output(text)


def _stand_in_was_read(facts: Sequence[Fact], command: Command, stand_in: Command, result: CommandResult) -> bool:
    """Return whether the stand-in answered. No facts count only from the program that printed the truncated output."""
    if facts:
        return any(fact.key for fact in facts)
    return bool(result.stdout.strip()) and command.argv[0] == stand_in.argv[0]


def _find_digest(facts: Sequence[Fact]) -> str:
    return next((fact.sha256 for fact in facts if fact.sha256), "")


def build_answer(
    host: str, check: Check, parsed_facts: Sequence[Fact], now: datetime, known_boot: str, seconds: float, lacking: Fact | None = None
) -> CheckAnswer:
    """Build the answer, dated by the boot id in its facts, else by `known_boot`.

    `lacking`: no program of the check is installed. A check without facts is unobserved.
    """
    facts: Sequence[Fact] = drop_duplicates(parsed_facts if lacking is None else [*parsed_facts, lacking])
    if check.settle and lacking is None:
        facts = check.settle(facts)
    facts = facts or [build_unobserved_fact(check.id, Status.UNREADABLE, f"{check.id}: its commands said nothing")]
    boot = find_boot_id(facts) or known_boot
    dated = tuple(_date_fact(fact, host, now, boot) for fact in facts)
    unobserved_lines = [fact.line for fact in dated if (not fact.key and fact.status.blind) or is_unobserved_fact(fact)]
    return CheckAnswer(host, check.id, dated, seconds, could_not="; ".join(dict.fromkeys(unobserved_lines)))


def _date_fact(fact: Fact, host: str, now: datetime, boot: str) -> Fact:
    """Add host, time and boot id, unless the fact got them when its command's output was read."""
    if fact.host and (fact.boot_id or not boot):
        return fact
    return fact.locate(host, time=now, boot_id=fact.boot_id or boot, sha256=fact.sha256)


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
