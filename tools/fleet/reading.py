"""From what commands printed to dated facts: outputs kept as evidence, read by their check, and trouble told beside what was read."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from kb.redact import Clean, cleaned, redact
from tools.checks.row import Check, Command
from tools.evidence import EvidenceStore
from tools.fact import Fact, Status, blind
from tools.fleet.answers import Answer
from tools.fleet.skipped import is_missing
from tools.fleet.trouble import broke_off, left_out, trouble_of
from tools.transport import Barrier, Ran

LONG = 1 << 20
"""Characters whose reading takes long enough for others to notice."""


class OutputReader:
    """Reads outputs for one incident, whose evidence they become."""

    def __init__(self, evidence: EvidenceStore, incident: str) -> None:
        self._evidence, self._incident = evidence, incident

    async def facts_of(self, host: str, check: Check, command: Command, ran: Ran, now: datetime, boot_id: str = "") -> Sequence[Fact]:
        """What one command said."""
        sha, facts = await self._read(check, command, ran)
        return [fact.at(host, time=now, boot_id=fact.boot_id or boot_id, sha256=sha) for fact in facts]

    async def facts_of_all(self, host: str, check: Check, rans: Mapping[Command, Ran], now: datetime, boot_id: str) -> list[Fact]:
        """What all commands of a check said. Where the stand-in of a cut output was read, that speaks for the whole: of the cut one remains
        what it holds, and not what it lacks."""
        said = {command: await self.facts_of(host, check, command, ran, now, boot_id) for command, ran in rans.items()}
        for command, stand_in in ((command, check.stand_in(command)) for command in rans):
            if stand_in and stand_in in rans and _was_read(said[stand_in], command, stand_in, rans[stand_in]):
                whole = not any(fact.status.blind for fact in said[stand_in])
                cut = left_out(check, command, stand_in).at(host, time=now, boot_id=boot_id, sha256=_sha(said[command]))
                said[command] = [*(fact for fact in said[command] if fact.status is Status.OK), *([cut] if whole else [])]
        return [fact for facts in said.values() for fact in facts]

    async def _read(self, check: Check, command: Command, ran: Ran) -> tuple[str, Iterable[Fact]]:
        trouble = _told(trouble_of(check, command, ran))
        text = await _cleaned(ran.text + ("\n" + ran.stderr.decode("utf-8", "replace") if ran.stderr else ""))
        sha = await self._evidence.put(self._incident, text) if text.strip() else ""
        if command.silence and not text.strip() and ran.exit_status == 0:
            return sha, check.read(command.silence)
        facts = [trouble] if trouble else []
        if check.statuses is not None and (trouble or ran.exit_status not in check.statuses):
            why = f"{check.id}.{command.name}: exit status {ran.exit_status}: {text.strip()[:200]}"
            return sha, facts or [blind(check.id, Status.UNREADABLE, why)]
        if broke_off(ran) and not check.exclusive:
            facts += await _read(check, await _cleaned(ran.text[: ran.text.rfind("\n") + 1])) if check.partial and "\n" in ran.text else ()
        elif ran.stdout.strip() or (trouble is None and text.strip() and ran.exit_status != 126 and not is_missing(ran)):
            facts += await _read(check, text)
        return sha, facts


async def _cleaned(text: str) -> Clean:
    """Without secrets before anything is made of it: facts go into evidence, to the store, to a model and onto cards."""
    return await asyncio.to_thread(cleaned, text) if len(text) > LONG else cleaned(text)


def _told(trouble: Fact | None) -> Fact | None:
    """Trouble quotes what a host complained of."""
    return replace(trouble, line=redact(trouble.line)) if trouble else None


async def _read(check: Check, text: Clean) -> Sequence[Fact]:
    """What the check's formats make of it; of a long text apart from the loop, which others wait for."""
    return await asyncio.to_thread(check.read, text) if len(text) > LONG else check.read(text)


def _was_read(facts: Sequence[Fact], command: Command, stand_in: Command, ran: Ran) -> bool:
    """Whether a stand-in said something. That there is nothing is believed of the program which printed the cut output: it has the log."""
    nothing = not facts and bool(ran.stdout.strip()) and command.argv[0] == stand_in.argv[0]
    return nothing or any(fact.key for fact in facts)


def _sha(facts: Sequence[Fact]) -> str:
    return next((fact.sha256 for fact in facts if fact.sha256), "")


def settled(
    host: str, check: Check, found: Sequence[Fact], now: datetime, known_boot: str, seconds: float, lacking: Fact | None = None
) -> Answer:
    """The answer that all facts of a check make together, dated by the boot that they name, else by the one known so far. `lacking`: that
    none of its programs is there. A check that established nothing could not look."""
    facts = check.settle(distinct(found)) if check.settle and not lacking else distinct([*found, *([lacking] if lacking else ())])
    facts = facts or [blind(check.id, Status.UNREADABLE, f"{check.id}: its commands said nothing")]
    boot = boot_named(facts) or known_boot
    dated = tuple(
        fact if fact.host and (fact.boot_id or not boot) else fact.at(host, time=now, boot_id=fact.boot_id or boot, sha256=fact.sha256)
        for fact in facts
    )
    blinds = [fact.line for fact in dated if (not fact.key and fact.status.blind) or is_not_seen(fact)]
    return Answer(host, check.id, dated, seconds, could_not="; ".join(dict.fromkeys(blinds)))


def is_not_seen(fact: Fact) -> bool:
    """Whether a fact only says that there was nothing to look at or nobody to ask: no tool, no device, no log of a job."""
    return fact.key == "check.skipped" or (fact.key == "job.log" and fact.value is False)


def boot_named(facts: Iterable[Fact]) -> str:
    """The boot id that stands among the facts, or ""."""
    return next((str(fact.value) for fact in facts if fact.key == "host.boot_id" and fact.value), "")


def distinct(facts: Sequence[Fact]) -> list[Fact]:
    """Without the repeats that come of several commands printing the same thing."""
    seen: dict[tuple[object, ...], Fact] = {}
    for fact in facts:
        attrs = repr(fact.attrs) if fact.attrs else ""
        seen.setdefault((fact.key, fact.device, repr(fact.value), fact.status, fact.line, fact.time, fact.boot_id, attrs), fact)
    return list(seen.values())


def could_not(host: str, check: Check, status: Status, why: str, now: datetime, barrier: Barrier = Barrier.OTHER) -> Answer:
    """The answer of a host that could not be asked. What kept us out is told where it is known."""
    attrs = {} if barrier is Barrier.OTHER else {"barrier": barrier.value}
    return Answer(host, check.id, (replace(blind(check.id, status, why, host), time=now, attrs=attrs),), could_not=why)
