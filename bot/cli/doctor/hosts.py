"""Doctor's checks of hosts: SSH access, node kits and schedulers."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from bot.cli.doctor.finding import Finding
from kb.needle_search import split_lines
from tools.checks.kernel import BOOT_ID
from tools.execution.kit import KitState, get_current_kit_version, read_kit_state
from tools.inventory.host_ranges import fold_host_names
from tools.inventory.inventory import Host, Inventory
from tools.transport import AccessBarrier, CommandResult, Transport, Unreachable

# Doctor's checks of schedulers. One that does not know the hosts' names cannot drain them.

PROBE_TIMEOUT_SECONDS = 15.0
MAX_OUTPUT_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SchedulerProbe:
    """How a scheduler lists node names, one per line after `prefix`."""

    part: str  # kind, as in the inventory
    called: str
    argv: tuple[str, ...]
    prefix: str
    install: str  # fix if the command is missing
    mend: str  # fix if the command fails

    def get_machine_for(self, host: Host) -> str:
        """Return the host's controller, if it has this scheduler."""
        return host.controller if host.scheduler == self.part else ""


SCHEDULERS: tuple[SchedulerProbe, ...] = (
    SchedulerProbe(
        part="slurm",
        called="Slurm",
        argv=("sinfo", "--noheader", "--Node", "--format", "%N"),
        prefix="",
        install="install Slurm's commands on the `controller` of the inventory, or name another host",
        mend="`scontrol ping` there, `systemctl status slurmctld munge` on the machine that runs it",
    ),
    SchedulerProbe(
        part="kubernetes",
        called="Kubernetes",
        argv=("kubectl", "get", "nodes", "-o", "name", "--request-timeout=10s"),
        prefix="node/",
        install="install kubectl on the `controller` of the inventory, or name another host",
        mend="`kubectl get nodes` there as the account that RackMedic logs in with: a kubeconfig, and leave to read nodes",
    ),
)


async def check_schedulers(transport: Transport, inventory: Inventory, names: Sequence[str]) -> list[Finding]:
    probes: list[Awaitable[Finding]] = []
    for probe in SCHEDULERS:
        hosts: dict[str, list[Host]] = {}
        for host in (inventory.hosts[name] for name in names):
            if machine := probe.get_machine_for(host):
                hosts.setdefault(machine, []).append(host)
        probes += [_probe_scheduler(probe, transport, machine, own) for machine, own in hosts.items()]
    return list(await asyncio.gather(*probes))


async def _probe_scheduler(probe: SchedulerProbe, transport: Transport, machine: str, hosts: Sequence[Host]) -> Finding:
    try:
        result = await transport.run(machine, probe.argv, timeout=PROBE_TIMEOUT_SECONDS, cap=MAX_OUTPUT_BYTES)
    except Unreachable as error:
        return Finding(probe.part, "fail", f"{machine} could not be asked: {error.why}", "without it nothing is drained or returned")
    if result.exit_status != 0 or result.timed_out or result.truncated:
        mend = probe.install if result.exit_status == 127 else probe.mend
        return Finding(probe.part, "fail", f"{probe.argv[0]} on {machine}: {_format_failure(result)}", mend)
    return _check_node_names(
        probe, machine, hosts, {line.strip().removeprefix(probe.prefix) for line in split_lines(result.text) if line.strip()}
    )


def _check_node_names(probe: SchedulerProbe, machine: str, hosts: Sequence[Host], theirs: set[str]) -> Finding:
    own_names = {host.node_name for host in hosts}
    if strangers := own_names - theirs:
        unknown_note = f"; it knows {fold_host_names(theirs - own_names)}" if theirs - own_names else ""
        sentence = f"{probe.called} ({machine}) knows no node {fold_host_names(strangers)}{unknown_note}"
        return Finding(probe.part, "fail", sentence[:600], f"name hosts as {probe.called} does, or give a host its name there with `node:`")
    return Finding(probe.part, "ok", f"{machine} answers and knows {fold_host_names(own_names)}"[:600])


def _format_failure(result: CommandResult) -> str:
    error_line = next((line.strip() for line in split_lines(result.stderr.decode("utf-8", "replace")) if line.strip()), "")
    return error_line[:300] or (
        "no answer in time" if result.timed_out or result.exit_status is None else f"exit status {result.exit_status}"
    )


# Doctor's checks of SSH access and node kits.


@dataclass(frozen=True, slots=True)
class UnreachableHost:
    host: Host
    barrier: AccessBarrier
    why: str


async def check_hosts(ssh: Transport, inventory: Inventory, names: Sequence[str]) -> list[Finding]:
    """Return one finding for reachable hosts, one per kind of failure, then kits."""
    answers = await asyncio.gather(*(_probe_host(ssh, inventory.hosts[name]) for name in names))
    refusals = [answer for answer in answers if answer]
    closed = {row.host.name for row in refusals}
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


def build_refusal_findings(rows: Sequence[UnreachableHost]) -> list[Finding]:
    """Group hosts with the same fix, whatever their error text."""
    hosts_by_refusal: dict[tuple[AccessBarrier, str], list[UnreachableHost]] = {}
    for row in rows:
        hosts_by_refusal.setdefault((row.barrier, _GROUP_KEYS.get(row.barrier, _get_reason)(row)), []).append(row)
    return [
        _FINDING_BUILDERS.get(barrier, _build_other_finding)(same)
        for (barrier, _), same in sorted(hosts_by_refusal.items(), key=lambda item: item[0])
    ]


def _build_login_finding(rows: Sequence[UnreachableHost]) -> Finding:
    host = rows[0].host
    key = f"the public half of {host.key}" if host.key else "our public key"
    sentence = f"{_format_host_count(rows)} refused the login of {host.user}: {_format_host_names(rows)}"
    mend = (
        f"is {key} in /etc/ssh/authorized_keys/{host.user} there (without the kit's rule for sshd: in ~{host.user}/.ssh/authorized_keys), "
        "and the account not locked? `user`, `key`, `certificate`: in the inventory"
    )
    return Finding("ssh", "fail", sentence, mend)


def _build_unlisted_key_finding(rows: Sequence[UnreachableHost]) -> Finding:
    file = rows[0].host.known_hosts or "~/.ssh/known_hosts"
    sentence = f"no key of {_format_host_count(rows)} is listed in {file}: {_format_host_names(rows)}"
    return Finding(
        "ssh",
        "fail",
        sentence,
        "take it from the host's own console, or `ssh-keyscan` and compare, then add it; or sign host keys (@cert-authority)",
    )


def _build_changed_key_finding(rows: Sequence[UnreachableHost]) -> Finding:
    file = rows[0].host.known_hosts or "~/.ssh/known_hosts"
    sentence = (
        f"{_format_host_count(rows)} {'shows' if len(rows) == 1 else 'show'} another key than {file} lists: {_format_host_names(rows)}"
    )
    return Finding(
        "ssh",
        "fail",
        sentence,
        "if the host was re-installed, fix known_hosts by hand; if not, another machine may be answering in its place",
    )


def _build_other_finding(rows: Sequence[UnreachableHost]) -> Finding:
    return Finding(
        "ssh",
        "fail",
        f"{_format_host_names(rows)}: {rows[0].why}",
        "see the reason; `known_hosts`, `user` and `key` are set in the inventory",
    )


def _format_host_count(rows: Sequence[UnreachableHost]) -> str:
    return "1 host" if len(rows) == 1 else f"{len(rows)} hosts"


def _format_host_names(rows: Sequence[UnreachableHost]) -> str:
    return fold_host_names(row.host.name for row in rows)


def _get_known_hosts_file(row: UnreachableHost) -> str:
    return row.host.known_hosts


def _get_reason(row: UnreachableHost) -> str:
    return row.why


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
