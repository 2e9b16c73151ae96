"""One process against many hosts: `python -m tests.bench.perf.fleet [--hosts 100] [--json OUT]`. Ratios of one run, never seconds alone.

All arms meet the same simulated nodes, real SSH servers on loopback in a process of their own. Two comparisons:
`wave`: every passive command of every check on every host, by bare asyncssh and by the product (which also reads, redacts and weighs
nothing but facts); `one`: a single command on every host, by bare asyncssh, the product, clush and parallel-ssh. A bastion arm opens
all hosts through one OpenSSH server with its default MaxStartups. Every arm is a process of its own, so its memory is its own.
"""

import argparse
import asyncio
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncssh

from deploy.sandbox.cluster.cluster import Cluster
from deploy.sandbox.cluster.sshd import SshCluster
from tests.fixtures_sshd import SSHD, sshd
from tools.check import Command
from tools.checks import CHECKS
from tools.evidence import MemoryEvidence
from tools.fleet import LOOK, Ask, Fleet
from tools.inventory import Host, Inventory, load_inventory
from tools.sku import load_skus
from tools.ssh import Ssh, remote_command

ONE = ("uname", "-r")
PASSIVE = tuple(check for check in CHECKS.values() if not check.exclusive and check.scope == "host")


def commands(host: Host) -> list[tuple[str, ...]]:
    """Every argv of a passive wave on a host, as the fleet would ask."""
    slots = {"job_logs": host.job_logs, "nccl_tests": host.nccl_tests, "gpus": "8", "node": host.name}

    def argv(check: str, command: Command) -> tuple[str, ...]:
        return (*LOOK, f"{check}.{command.name}") if command.privileged and host.kit else command.fill(slots)

    return [argv(check.id, command) for check in PASSIVE for command in check.commands]


async def serve(folder: Path, hosts: int) -> None:
    """The nodes, until stdin closes. The case is a healthy cluster."""
    nodes = [f"gpu-{number:04}" for number in range(1, hosts + 1)]
    await SshCluster(Cluster.of(nodes=nodes), folder).__aenter__()
    rows = load_inventory(folder / "inventory.yaml").hosts.values()
    (folder / "ssh_config").write_text("".join(_ssh_config(row) for row in rows))
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)  # closing thousands of connections one by one proves nothing


def _ssh_config(row: Host) -> str:
    return (
        f"Host {row.name}\n HostName {row.address}\n Port {row.port}\n User {row.user}\n IdentityFile {row.key}\n IdentitiesOnly yes\n"
        f" UserKnownHostsFile {row.known_hosts}\n StrictHostKeyChecking yes\n LogLevel ERROR\n"
    )


async def bare(inventory: Inventory, asked: Callable[[Host], Sequence[Sequence[str]]]) -> int:
    """asyncssh as a careful person would write it: 50 connections being opened at once, eight commands at once on each."""
    opening = asyncio.Semaphore(50)

    async def one(host: Host) -> int:
        sessions = asyncio.Semaphore(8)
        async with opening:
            connection = await asyncssh.connect(
                host.address,
                host.port,
                username=host.user,
                client_keys=[host.key],
                known_hosts=host.known_hosts,
                config=None,
                agent_path=None,
            )

        async def run(argv: Sequence[str]) -> int:
            async with sessions:
                ran = await connection.run(remote_command(argv, 20), encoding=None)
                return int(ran.exit_status is not None)

        try:
            return sum(await asyncio.gather(*(run(argv) for argv in asked(host))))
        finally:
            connection.close()

    return sum(await asyncio.gather(*(one(host) for host in inventory.hosts.values())))


async def ours_transport(inventory: Inventory, asked: Callable[[Host], Sequence[Sequence[str]]]) -> int:
    """The product's connections alone: the same commands, nothing read."""
    ssh = Ssh(inventory)

    async def one(host: Host) -> int:
        rans = await asyncio.gather(*(ssh.run(host.name, argv, timeout=20, cap=4 << 20) for argv in asked(host)))
        return sum(ran.exit_status is not None for ran in rans)

    try:
        return sum(await asyncio.gather(*(one(host) for host in inventory.hosts.values())))
    finally:
        await ssh.aclose()


class _Utc:
    def now(self) -> Any:
        from datetime import UTC, datetime

        return datetime.now(UTC)


async def ours_wave(inventory: Inventory, asked: Callable[[Host], Sequence[Sequence[str]]]) -> int:
    """The whole product: outputs redacted, kept and read into facts, hosts let go as they finish."""
    ssh = Ssh(inventory)
    fleet = Fleet(ssh, inventory, CHECKS, MemoryEvidence(), _Utc(), load_skus())
    good = 0
    try:
        async for answers in fleet.each("bench", [Ask(host, check.id) for host in inventory.hosts for check in PASSIVE]):
            good += sum(len(CHECKS[answer.check].commands) for answer in answers if answer.facts)
    finally:
        await ssh.aclose()
    return good


async def clush(inventory: Inventory, folder: Path) -> int:
    """ClusterShell's command with its own fan-out of ssh processes."""
    process = await asyncio.create_subprocess_exec(
        *(
            str(Path(sys.executable).parent / "clush"),
            "-q",
            "-f",
            "64",
            "-o",
            f"-F {folder / 'ssh_config'}",
            "-w",
            ",".join(inventory.hosts),
        ),
        *ONE,
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    return len(out.splitlines())


PSSH = """
import sys
from pssh.clients import ParallelSSHClient
from pssh.config import HostConfig
rows = [line.split() for line in open(sys.argv[1])]
config = [HostConfig(port=int(port), user=user, private_key=key) for host, port, user, key in rows]
client = ParallelSSHClient([row[0] for row in rows], host_config=config, pool_size=100)
done = client.run_command("timeout -k 2 20 uname -r", stop_on_errors=False)
client.join()
print(sum(1 for one in done if one.exit_code == 0))
"""


async def parallel_ssh(inventory: Inventory, folder: Path) -> int:
    """parallel-ssh (libssh2, no host key checked: it offers none), where it is installed."""
    rows = "".join(f"{row.address} {row.port} {row.user} {row.key}\n" for row in inventory.hosts.values())
    await asyncio.to_thread((folder / "pssh.txt").write_text, rows)
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PSSH, str(folder / "pssh.txt"), stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return int(out.split()[-1]) if out.strip() else 0


async def bastion(inventory: Inventory, folder: Path) -> int:
    """Every name leads to one OpenSSH with its default MaxStartups (10:30:100): drops are met with fewer connections at once."""
    async with sshd(folder, "MaxStartups 10:30:100") as server:
        row = server.inventory().hosts["n1"]
        reach = {"address": row.address, "port": row.port, "user": row.user, "key": row.key, "known_hosts": row.known_hosts}
        names = [f"n{number}" for number in range(min(200, len(inventory.hosts)))]
        from tools.inventory import parse_inventory

        ssh = Ssh(parse_inventory({"groups": {"g": {"hosts": ",".join(names)}}, "hosts": dict.fromkeys(names, reach)}))
        rans = await asyncio.gather(*(ssh.run(name, ["true"], timeout=10, cap=10) for name in names), return_exceptions=True)
        await ssh.aclose()
    return sum(not isinstance(ran, BaseException) for ran in rans)


def _all(host: Host) -> Sequence[Sequence[str]]:
    return commands(host)


def _one(host: Host) -> Sequence[Sequence[str]]:
    return [ONE]


ARMS: Mapping[str, Callable[[Inventory, Path], Coroutine[Any, Any, int]]] = {
    "wave/asyncssh": lambda inventory, folder: bare(inventory, _all),
    "wave/transport": lambda inventory, folder: ours_transport(inventory, _all),
    "wave/rackmedic": lambda inventory, folder: ours_wave(inventory, _all),
    "one/asyncssh": lambda inventory, folder: bare(inventory, _one),
    "one/rackmedic": lambda inventory, folder: ours_transport(inventory, _one),
    "one/clush": clush,
    "one/parallel-ssh": parallel_ssh,
    "bastion/rackmedic": bastion,
}


def arm(name: str, folder: Path) -> dict[str, Any]:
    """Run one arm in this process."""
    inventory = load_inventory(folder / "inventory.yaml")
    began = time.perf_counter()
    good = asyncio.run(ARMS[name](inventory, folder))
    own, below = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    cpu = own.ru_utime + own.ru_stime + below.ru_utime + below.ru_stime
    return {"seconds": round(time.perf_counter() - began, 2), "good": good, "cpu_seconds": round(cpu, 2), "peak_mib": own.ru_maxrss >> 10}


def why_not(name: str) -> str:
    """Why an arm cannot run here."""
    if name == "one/parallel-ssh":
        found = subprocess.run([sys.executable, "-c", "import pssh"], capture_output=True, check=False)
        return "" if found.returncode == 0 else "parallel-ssh is not installed"
    if name == "one/clush":
        return "" if shutil.which("ssh") and (Path(sys.executable).parent / "clush").exists() else "clush or ssh is not installed"
    return "" if name != "bastion/rackmedic" or SSHD else "openssh-server is not installed"


def measure(hosts: int, rounds: int, only: str) -> dict[str, Any]:
    """All arms on the same servers, `rounds` times in turn; the median of each."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    me = [sys.executable, "-m", "tests.bench.perf.fleet"]
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in ARMS if name.startswith(only)}
    with tempfile.TemporaryDirectory() as folder:
        words = [*me, "--serve", folder, "--hosts", str(hosts)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            try:
                subprocess.run([*me, "--arm", next(iter(rows)), "--serve", folder], capture_output=True, check=True)  # the nodes warm up
                for name in [name for _ in range(rounds) for name in rows if not why_not(name)]:
                    ran = subprocess.run([*me, "--arm", name, "--serve", folder], capture_output=True, text=True, check=False)
                    if ran.returncode:
                        raise RuntimeError(f"{name} failed: {ran.stderr[-2000:]}")
                    rows[name].append(json.loads(ran.stdout.splitlines()[-1]))
                    print(f"{name}: {rows[name][-1]}", file=sys.stderr)
            finally:
                server.stdin.close() if server.stdin else None
    return {"schema": 1, "hosts": hosts, "open_files": soft, "arms": {name: _summary(name, found) for name, found in rows.items()}}


def _summary(name: str, found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    if not found:
        return {"not_run": why_not(name)}
    return {field: statistics.median(row[field] for row in found) for field in found[0]}


def ratios(arms: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    """How many times longer each arm took than the product in the same comparison; for the wave, what the product adds to bare asyncssh."""
    found: dict[str, float] = {}
    for above, below in (
        ("wave/transport", "wave/asyncssh"),
        ("wave/rackmedic", "wave/asyncssh"),
        ("one/rackmedic", "one/asyncssh"),
        ("one/clush", "one/rackmedic"),
        ("one/parallel-ssh", "one/rackmedic"),
    ):
        if "seconds" in arms.get(above, {}) and "seconds" in arms.get(below, {}):
            found[f"{above} : {below}"] = round(arms[above]["seconds"] / arms[below]["seconds"], 2)
    return found


def main() -> int:
    """Serve, run one arm, or measure all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="", help="arms whose name begins so")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--arm", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.arm:
        print(json.dumps(arm(given.arm, given.serve)))
        return 0
    if given.serve:
        asyncio.run(serve(given.serve, given.hosts))
        return 0
    result = measure(given.hosts, given.rounds, given.only)
    result["ratios"] = ratios(result["arms"])
    print(json.dumps(result, indent=1))
    if given.json:
        given.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
