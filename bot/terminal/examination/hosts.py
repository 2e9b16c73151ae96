"""Who lets us in, who does not and why, in few lines for many hosts; then the node kit of those who do."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bot.terminal.examination.finding import Finding
from tools.acting.kit import KitState, current_version, kit_of
from tools.checks.kernel import BOOT_ID
from tools.inventory.hosts import Host, Inventory
from tools.inventory.ranges import fold
from tools.transport import Barrier, Transport, Unreachable


@dataclass(frozen=True, slots=True)
class KeptOut:
    """A host that does not let us in. `barrier` decides how it is told, `why` is the host's or the network's own word."""

    host: Host
    barrier: Barrier
    why: str


async def host_findings(ssh: Transport, inventory: Inventory, names: Sequence[str]) -> list[Finding]:
    """One line for all hosts that answer, one for each way in which others do not, then their kits."""
    answers = await asyncio.gather(*(_try(ssh, inventory.hosts[name]) for name in names))
    refused = [answer for answer in answers if answer]
    closed = {row.host.name for row in refused}
    there = [name for name in names if name not in closed and inventory.hosts[name].kit]
    kits = kit_findings(there, await asyncio.gather(*(kit_of(name, ssh) for name in there)))
    good = len(names) - len(closed)
    reached = [Finding("ssh", "ok", f"{good} of {len(names)} hosts answer, host keys verified")] if good else []
    return reached + refusal_findings(refused) + kits


async def _try(ssh: Transport, host: Host) -> KeptOut | None:
    try:
        ran = await ssh.run(host.name, BOOT_ID, timeout=10, cap=1000)
    except Unreachable as why:
        return KeptOut(host, why.barrier, why.why)
    return None if ran.exit_status == 0 else KeptOut(host, Barrier.OTHER, f"cannot run a command (exit status {ran.exit_status})")


def refusal_findings(rows: Sequence[KeptOut]) -> list[Finding]:
    """What is mended the same way is one line, however each host worded it."""
    alike: dict[tuple[Barrier, str], list[KeptOut]] = {}
    for row in rows:
        alike.setdefault((row.barrier, _SAME.get(row.barrier, _why)(row)), []).append(row)
    return [_TOLD.get(barrier, _other)(same) for (barrier, _), same in sorted(alike.items(), key=lambda item: item[0])]


def _login(rows: Sequence[KeptOut]) -> Finding:
    host = rows[0].host
    key = f"the public half of {host.key}" if host.key else "our public key"
    says = f"{_several(rows)} refused the login of {host.user}: {_names(rows)}"
    mend = (
        f"is {key} in ~{host.user}/.ssh/authorized_keys there, and the account not locked? `user`, `key`, `certificate`: in the inventory"
    )
    return Finding("ssh", "fail", says, mend)


def _unlisted(rows: Sequence[KeptOut]) -> Finding:
    file = rows[0].host.known_hosts or "~/.ssh/known_hosts"
    says = f"no key of {_several(rows)} is listed in {file}: {_names(rows)}"
    return Finding(
        "ssh",
        "fail",
        says,
        "take it from the host's own console, or `ssh-keyscan` and compare, then add it; or sign host keys (@cert-authority)",
    )


def _changed(rows: Sequence[KeptOut]) -> Finding:
    file = rows[0].host.known_hosts or "~/.ssh/known_hosts"
    says = f"{_several(rows)} {'shows' if len(rows) == 1 else 'show'} another key than {file} lists: {_names(rows)}"
    return Finding(
        "ssh", "fail", says, "installed anew? then mend known_hosts by hand; if nobody knows why, something answers in its place"
    )


def _other(rows: Sequence[KeptOut]) -> Finding:
    return Finding(
        "ssh", "fail", f"{_names(rows)}: {rows[0].why}", "see the reason; `known_hosts`, `user` and `key` are set in the inventory"
    )


def _several(rows: Sequence[KeptOut]) -> str:
    return "1 host" if len(rows) == 1 else f"{len(rows)} hosts"


def _names(rows: Sequence[KeptOut]) -> str:
    return fold(row.host.name for row in rows)


def _known(row: KeptOut) -> str:
    return row.host.known_hosts


def _why(row: KeptOut) -> str:
    return row.why


_SAME: Mapping[Barrier, Callable[[KeptOut], str]] = {
    Barrier.LOGIN: lambda row: f"{row.host.user} {row.host.key}",
    Barrier.UNLISTED_KEY: _known,
    Barrier.CHANGED_KEY: _known,
}
"""What must be the same of hosts that are one line."""

_TOLD: Mapping[Barrier, Callable[[Sequence[KeptOut]], Finding]] = {
    Barrier.LOGIN: _login,
    Barrier.UNLISTED_KEY: _unlisted,
    Barrier.CHANGED_KEY: _changed,
}


def kit_findings(names: list[str], states: list[KitState]) -> list[Finding]:
    """One line for hosts that can run every remedy, one for each way in which others cannot."""
    by_state: dict[tuple[str, str], list[str]] = {}
    for name, kit in zip(names, states, strict=True):
        by_state.setdefault((kit.state, kit.version if kit.state == "older" else kit.says), []).append(name)
    rows = []
    for (state, detail), hosts in sorted(by_state.items()):
        says = {
            "current": f"{len(hosts)} of {len(names)} hosts have it, version {current_version()}",
            "older": f"{fold(hosts)}: version {detail}, not {current_version()}: remedies and newer checks are refused there",
            "missing": f"{fold(hosts)}: not usable ({detail}), though the inventory says `kit: true`",
            "unknown": f"{fold(hosts)}: could not be asked ({detail})",
        }[state]
        good = state == "current"
        rows.append(
            Finding("node kit", "ok" if good else "fail", says, "" if good else "install it anew: `rackmedic node-kit`, its install.sh")
        )
    return rows
