"""The node kit as seen from here: how it is asked, what its answers mean, whether a host has one and of which version."""

import re
import shlex
from dataclasses import dataclass
from typing import Literal, cast

from kb.scan import split_lines
from tools.action import Action
from tools.checks import CHECKS
from tools.nodekit.generate import ACT_COMMAND, compute_kit_version
from tools.remedies import REMEDIES
from tools.transport import CommandResult, Transport, Unreachable

KIT_TIMEOUT_SECONDS = 45.0
"""Longer than the kit takes to give up on its conditions."""
MAX_OUTPUT_BYTES = 128 * 1024

KitWord = Literal["started", "running", "done", "lost", "never", "refused", "absent", "unclear"]
KNOWN_KIT_WORDS: frozenset[str] = frozenset({"started", "running", "done", "lost", "never", "refused"})


@dataclass(frozen=True, slots=True)
class KitAnswer:
    """One answer of the kit. `absent`: the host has no kit or lets us not use it, so nothing ran. `unclear` is everything else: no session,
    a lost connection, an answer of another shape. `says` tells which."""

    word: KitWord
    exit_status: int | None = None
    output: str = ""
    says: str = ""


@dataclass(frozen=True, slots=True)
class KitState:
    """Whether a host can run remedies: only where its kit is `current`. `unknown`: it could not be asked."""

    state: Literal["current", "older", "missing", "unknown"]
    version: str = ""
    says: str = ""

    def explain_unusable(self, action: Action) -> str:
        """For the card: why RackMedic cannot run it, and the command for a human. Empty where it can."""
        why = {
            "current": "",
            "older": f"The node kit on {action.via} is version {self.version}, not {get_current_kit_version()}: upgrade it with `rackmedic node-kit`.",
            "missing": f"RackMedic has no node kit on {action.via} ({self.says}): install it with `rackmedic node-kit`.",
            "unknown": f"The node kit on {action.via} could not be asked: {self.says}.",
        }[self.state]
        return f"{why} Until then a human can run, as root on {action.via}: {shlex.join(action.command)}" if why else ""


async def ask_kit(host: str, words: tuple[str, ...], transport: Transport, kit: tuple[str, ...] = ACT_COMMAND) -> KitAnswer:
    """One question to `rackmedic-act` and its answer. Never raises for what the host or the network does."""
    try:
        ran = await transport.run(host, (*kit, *words), timeout=KIT_TIMEOUT_SECONDS, cap=MAX_OUTPUT_BYTES)
    except Unreachable as why:
        return KitAnswer("unclear", says=why.why)
    return parse_kit_answer(ran)


def parse_kit_answer(ran: CommandResult) -> KitAnswer:
    """The kit's answer; anything that is not exactly one is `unclear`, and sudo's or the shell's refusal is `absent`."""
    first, _, rest = ran.text.partition("\n")
    word, _, more = first.partition(" ")
    whole = ran.exit_status is not None and not ran.timed_out
    if whole and word == "done" and re.fullmatch(r"[0-9]{1,3}", more):
        return KitAnswer("done", int(more), rest)
    if whole and word != "done" and word in KNOWN_KIT_WORDS:
        return KitAnswer(cast(KitWord, word), output=rest, says=_explain_kit_reason(more))
    complaint = (ran.stderr.decode("utf-8", "replace").strip() or first or "connection lost")[:200]
    if whole and not first and _is_sudo_refusal(ran):
        return KitAnswer("absent", says=complaint)
    return KitAnswer("unclear", says=f"the node kit gave no clear answer: {complaint}")


def _explain_kit_reason(says: str) -> str:
    """The kit's reason; one that only a kit of another time gives is explained."""
    if old := re.fullmatch(r"no such remedy in kit ([0-9a-f]{12})", says):
        return (
            f"the node kit there is version {old[1]}, not {get_current_kit_version()}, and has no such remedy: nothing was started; "
            "install the newest (`rackmedic node-kit`), then ask again"
        )
    return says


def _is_sudo_refusal(ran: CommandResult) -> bool:
    """Whether sudo (or the shell before it) ended this, so that the kit was never reached."""
    lines = split_lines(ran.stderr.decode("utf-8", "replace"))
    return ran.exit_status in (126, 127) or (
        ran.exit_status == 1 and any(re.match(r"sudo: |Sorry, user |\S+ is not in the sudoers", x) for x in lines)
    )


async def read_kit_state(host: str, transport: Transport, kit: tuple[str, ...] = ACT_COMMAND) -> KitState:
    """Which kit the host has, if any."""
    try:
        ran = await transport.run(host, (*kit, "version"), timeout=KIT_TIMEOUT_SECONDS, cap=MAX_OUTPUT_BYTES)
    except Unreachable as why:
        return KitState("unknown", says=why.why)
    version = ran.text.strip()
    if ran.exit_status == 0 and re.fullmatch(r"[0-9a-f]{12}", version):
        return KitState("current" if version == get_current_kit_version() else "older", version)
    said = parse_kit_answer(ran)
    return KitState("missing" if said.word == "absent" else "unknown", says=said.says)


def get_current_kit_version() -> str:
    """The version of the kit that `rackmedic node-kit` writes today."""
    return compute_kit_version(CHECKS, REMEDIES)
