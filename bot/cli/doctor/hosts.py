"""Doctor's checks of SSH access and node kits."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bot.cli.doctor.finding import Finding
from tools.checks.kernel import BOOT_ID
from tools.execution.kit import KitState, get_current_kit_version, read_kit_state
from tools.inventory.host_ranges import fold_host_names
from tools.inventory.inventory import Host, Inventory
from tools.transport import AccessBarrier, Transport, Unreachable


@dataclass(frozen=True, slots=True)
class UnreachableHost:
    host: Host
    barrier: AccessBarrier
    reason: str


async def check_hosts(ssh: Transport, inventory: Inventory, names: Sequence[str]) -> list[Finding]:
    """Return one finding for reachable hosts, one per kind of failure, then kits."""
    answers = await asyncio.gather(*(_probe_host(ssh, inventory.hosts[name]) for name in names))
    refusals = [answer for answer in answers if answer]
    closed = {refusal.host.name for refusal in refusals}
    hosts_with_kit = [name for name in names if name not in closed and inventory.hosts[name].kit]
    kits = build_kit_findings(hosts_with_kit, await asyncio.gather(*(read_kit_state(name, ssh) for name in hosts_with_kit)))
    good = len(names) - len(closed)
    reached = [Finding("ssh", "ok", f"{good} of {len(names)} hosts answer, host keys verified")] if good else []
    return reached + build_refusal_findings(refusals) + kits


async def _probe_host(ssh: Transport, host: Host) -> UnreachableHost | None:
    try:
        result = await ssh.run(host.name, BOOT_ID, timeout=10, cap=1000)
    except Unreachable as error:
        return UnreachableHost(host, error.barrier, error.why)
    return (
        None
        if result.exit_status == 0
        else UnreachableHost(host, AccessBarrier.OTHER, f"cannot run a command (exit status {result.exit_status})")
    )


def build_refusal_findings(hosts: Sequence[UnreachableHost]) -> list[Finding]:
    """Group hosts with the same fix, whatever their error text."""
    hosts_by_refusal: dict[tuple[AccessBarrier, str], list[UnreachableHost]] = {}
    for host in hosts:
        hosts_by_refusal.setdefault((host.barrier, _GROUP_KEYS.get(host.barrier, _get_reason)(host)), []).append(host)
    return [
        _FINDING_BUILDERS.get(barrier, _build_other_finding)(same)
        for (barrier, _), same in sorted(hosts_by_refusal.items(), key=lambda item: item[0])
    ]


def _build_login_finding(hosts: Sequence[UnreachableHost]) -> Finding:
    host = hosts[0].host
    key = f"the public half of {host.key}" if host.key else "our public key"
    sentence = f"{_format_host_count(hosts)} refused the login of {host.user}: {_format_host_names(hosts)}"
    mend = (
        f"is {key} in /etc/ssh/authorized_keys/{host.user} there (without the kit's rule for sshd: in ~{host.user}/.ssh/authorized_keys), "
        "and the account not locked? `user`, `key`, `certificate`: in the inventory"
    )
    return Finding("ssh", "fail", sentence, mend)


def _build_unlisted_key_finding(hosts: Sequence[UnreachableHost]) -> Finding:
    file = hosts[0].host.known_hosts or "~/.ssh/known_hosts"
    sentence = f"no key of {_format_host_count(hosts)} is listed in {file}: {_format_host_names(hosts)}"
    return Finding(
        "ssh",
        "fail",
        sentence,
        "take it from the host's own console, or `ssh-keyscan` and compare, then add it; or sign host keys (@cert-authority)",
    )


def _build_changed_key_finding(hosts: Sequence[UnreachableHost]) -> Finding:
    file = hosts[0].host.known_hosts or "~/.ssh/known_hosts"
    sentence = (
        f"{_format_host_count(hosts)} {'shows' if len(hosts) == 1 else 'show'} another key than {file} lists: {_format_host_names(hosts)}"
    )
    return Finding(
        "ssh",
        "fail",
        sentence,
        "if the host was re-installed, fix known_hosts by hand; if not, another machine may be answering in its place",
    )


def _build_other_finding(hosts: Sequence[UnreachableHost]) -> Finding:
    return Finding(
        "ssh",
        "fail",
        f"{_format_host_names(hosts)}: {hosts[0].reason}",
        "see the reason; `known_hosts`, `user` and `key` are set in the inventory",
    )


def _format_host_count(hosts: Sequence[UnreachableHost]) -> str:
    return "1 host" if len(hosts) == 1 else f"{len(hosts)} hosts"


def _format_host_names(hosts: Sequence[UnreachableHost]) -> str:
    return fold_host_names(host.host.name for host in hosts)


def _get_known_hosts_file(host: UnreachableHost) -> str:
    return host.host.known_hosts


def _get_reason(host: UnreachableHost) -> str:
    return host.reason


# what hosts of one finding share
_GROUP_KEYS: Mapping[AccessBarrier, Callable[[UnreachableHost], str]] = {
    AccessBarrier.LOGIN: lambda row: f"{row.host.user} {row.host.key}",
    AccessBarrier.UNLISTED_KEY: _get_known_hosts_file,
    AccessBarrier.CHANGED_KEY: _get_known_hosts_file,
}
_FINDING_BUILDERS: Mapping[AccessBarrier, Callable[[Sequence[UnreachableHost]], Finding]] = {
    AccessBarrier.LOGIN: _build_login_finding,
    AccessBarrier.UNLISTED_KEY: _build_unlisted_key_finding,
    AccessBarrier.CHANGED_KEY: _build_changed_key_finding,
}


def build_kit_findings(names: list[str], states: list[KitState]) -> list[Finding]:
    by_state: dict[tuple[str, str], list[str]] = {}
    for name, kit in zip(names, states, strict=True):
        by_state.setdefault((kit.state, kit.version if kit.state == "older" else kit.says), []).append(name)
    rows = []
    for (state, detail), hosts in sorted(by_state.items()):
        sentence_by_state = {
            "current": f"{len(hosts)} of {len(names)} hosts have it, version {get_current_kit_version()}",
            "older": f"{fold_host_names(hosts)}: version {detail}, not {get_current_kit_version()}: remedies and newer checks are refused there",
            "missing": f"{fold_host_names(hosts)}: not usable ({detail}), though the inventory says `kit: true`",
            "unknown": f"{fold_host_names(hosts)}: could not be asked ({detail})",
        }[state]
        good = state == "current"
        rows.append(
            Finding(
                "node kit",
                "ok" if good else "fail",
                sentence_by_state,
                "" if good else "install it again: `rackmedic node-kit`, its install.sh",
            )
        )
    return rows
