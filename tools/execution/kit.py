"""Client of the node kit: commands, answers and version."""

import re
import shlex
from dataclasses import dataclass
from typing import Literal, cast

from kb.needle_search import split_lines
from tools.action import Action
from tools.checks import CHECKS
from tools.nodekit.generate import ACT_COMMAND, compute_kit_version
from tools.remedies import REMEDIES
from tools.transport import CommandResult, Transport, Unreachable

KIT_TIMEOUT_SECONDS = 45.0  # longer than the kit's own limit for reading conditions
MAX_OUTPUT_BYTES = 128 * 1024

KitWord = Literal["started", "running", "done", "lost", "never", "refused", "absent", "unclear"]
KNOWN_KIT_WORDS: frozenset[str] = frozenset({"started", "running", "done", "lost", "never", "refused"})


@dataclass(frozen=True, slots=True)
class KitAnswer:
    """One answer of the kit; `says` gives details.

    `absent`: no kit or no access to it, so nothing ran. `unclear`: no session, a lost connection or an unknown format.
    """

    word: KitWord
    exit_status: int | None = None
    output: str = ""
    says: str = ""


@dataclass(frozen=True, slots=True)
class KitState:
    """A host's kit. Only a `current` one runs remedies; `unknown`: it could not be asked."""

    state: Literal["current", "older", "missing", "unknown"]
    version: str = ""
    says: str = ""

    def explain_unusable(self, action: Action) -> str:
        """Return why RackMedic cannot run the action, and the command for a human; empty if it can."""
        explanation = {
            "current": "",
            "older": f"The node kit on {action.via} is version {self.version}, not {get_current_kit_version()}: upgrade it with `rackmedic node-kit`.",
            "missing": f"RackMedic has no node kit on {action.via} ({self.says}): install it with `rackmedic node-kit`.",
            "unknown": f"The node kit on {action.via} could not be asked: {self.says}.",
        }[self.state]
        return f"{explanation} Until then a human can run, as root on {action.via}: {shlex.join(action.command)}" if explanation else ""


async def ask_kit(host: str, words: tuple[str, ...], transport: Transport, kit: tuple[str, ...] = ACT_COMMAND) -> KitAnswer:
    """Send one command to `rackmedic-act`. Never raises for host or network failures."""
    try:
        result = await transport.run(host, (*kit, *words), timeout=KIT_TIMEOUT_SECONDS, cap=MAX_OUTPUT_BYTES)
    except Unreachable as error:
        return KitAnswer("unclear", says=error.why)
    return parse_kit_answer(result)


def parse_kit_answer(result: CommandResult) -> KitAnswer:
    """Parse the kit's answer. A refusal by sudo or the shell is `absent`, anything malformed `unclear`."""
    first_line, _, output = result.text.partition("\n")
    word, _, details = first_line.partition(" ")
    is_complete = result.exit_status is not None and not result.timed_out
    if is_complete and word == "done" and re.fullmatch(r"[0-9]{1,3}", details):
        return KitAnswer("done", int(details), output)
    if is_complete and word != "done" and word in KNOWN_KIT_WORDS:
        return KitAnswer(cast(KitWord, word), output=output, says=_explain_kit_reason(details))
    complaint = (result.stderr.decode("utf-8", "replace").strip() or first_line or "connection lost")[:200]
    if is_complete and not first_line and _is_sudo_refusal(result):
        return KitAnswer("absent", says=complaint)
    return KitAnswer("unclear", says=f"the node kit gave no clear answer: {complaint}")


def _explain_kit_reason(says: str) -> str:
    if old := re.fullmatch(r"no such remedy in kit ([0-9a-f]{12})", says):
        return (
            f"the node kit there is version {old[1]}, not {get_current_kit_version()}, and has no such remedy: nothing was started; "
            "install the newest (`rackmedic node-kit`), then ask again"
        )
    return says


def _is_sudo_refusal(result: CommandResult) -> bool:
    """Return whether sudo or the shell refused, so the kit did not run."""
    if result.exit_status in (126, 127):
        return True
    lines = split_lines(result.stderr.decode("utf-8", "replace"))
    return result.exit_status == 1 and any(re.match(r"sudo: |Sorry, user |\S+ is not in the sudoers", line) for line in lines)


async def read_kit_state(host: str, transport: Transport, kit: tuple[str, ...] = ACT_COMMAND) -> KitState:
    """Ask for the kit's version."""
    try:
        result = await transport.run(host, (*kit, "version"), timeout=KIT_TIMEOUT_SECONDS, cap=MAX_OUTPUT_BYTES)
    except Unreachable as error:
        return KitState("unknown", says=error.why)
    version = result.text.strip()
    if result.exit_status == 0 and re.fullmatch(r"[0-9a-f]{12}", version):
        return KitState("current" if version == get_current_kit_version() else "older", version)
    answer = parse_kit_answer(result)
    return KitState("missing" if answer.word == "absent" else "unknown", says=answer.says)


def get_current_kit_version() -> str:
    """Return the version that `rackmedic node-kit` writes."""
    return compute_kit_version(CHECKS, REMEDIES)
