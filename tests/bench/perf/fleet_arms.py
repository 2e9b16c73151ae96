"""The fleet benchmark's arms: each runs the same commands on the same hosts, used with care. Each takes a prepared task
and returns `good` (commands with an exit status; for the product, parsed commands) and its own timings.
"""

import asyncio
import getpass
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import asyncssh

from tests.support.fixtures_sshd import sshd
from tests.support.inventories import inventory_of
from tools.checks import CHECKS
from tools.evidence import MemoryEvidence
from tools.fleet.answers import CheckRequest
from tools.fleet.fleet import Fleet
from tools.inventory.inventory import Inventory, parse_inventory
from tools.inventory.sku import Sku, load_skus
from tools.ssh.batching import BatchingSshTransport
from tools.ssh.client import PREFERRED_CIPHERS, SshTransport, build_remote_command
from tools.transport import CommandResult

ONE = ("uname", "-r")
PASSIVE = tuple(check for check in CHECKS.values() if not check.exclusive and check.scope == "host")
SECONDS = 20
SSH_FAILED = 255
Found = dict[str, float]
Asked = Mapping[str, Sequence[Sequence[str]]]


@dataclass(frozen=True)
class Task:
    """Hosts and their commands."""

    folder: Path
    inventory: Inventory
    asked: Asked
    skus: Mapping[str, Sku]

    def lines(self) -> list[dict[str, str]]:
        """Return the command line per host, by round."""
        most = max(map(len, self.asked.values()))
        return [{h: build_remote_command(argvs[n], SECONDS) for h, argvs in self.asked.items() if n < len(argvs)} for n in range(most)]


class Clock:
    def now(self) -> datetime:
        return datetime.now(UTC)


class Noted:
    """A transport that only records the product's requests."""

    def __init__(self) -> None:
        self.asked: dict[str, list[Sequence[str]]] = defaultdict(list)

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        self.asked[host].append(tuple(argv))
        return CommandResult(b"", b"", 0, 0.0)

    async def aclose(self) -> None: ...


def prepared(name: str, folder: Path) -> Task:
    skus = load_skus()
    inventory = inventory_of(folder / ("with_dead.yaml" if name.startswith("dead/") else "inventory.yaml"))
    if name.startswith(("one/", "bastion/")):
        return Task(folder, inventory, {host: [ONE] for host in inventory.hosts}, skus)
    noted = Noted()
    fleet = Fleet(noted, inventory, CHECKS, MemoryEvidence(), Clock(), skus)
    asyncio.run(fleet.run_checks("bench", [CheckRequest(host, check.id) for host in inventory.hosts for check in PASSIVE]))
    return Task(folder, inventory, noted.asked, skus)


async def bare(task: Task, **more: object) -> Found:
    """asyncssh as a careful user writes it: 50 connections opening at once, eight commands per connection."""
    opening = asyncio.Semaphore(50)

    async def one(name: str) -> int:
        host, sessions = task.inventory.hosts[name], asyncio.Semaphore(8)
        known: dict[str, Any] = {"username": host.user, "client_keys": [host.key], "known_hosts": host.known_hosts, **more}
        async with opening:
            connection = await asyncssh.connect(host.address, host.port, config=None, agent_path=None, **known)

        async def run(argv: Sequence[str]) -> int:
            async with sessions:
                ran = await connection.run(build_remote_command(argv, SECONDS), encoding=None)
                return int(ran.exit_status is not None)

        try:
            return sum(await asyncio.gather(*(run(argv) for argv in task.asked[name])))
        finally:
            connection.close()

    return {"good": sum(await asyncio.gather(*(one(name) for name in task.asked)))}


async def transport(task: Task) -> Found:
    """The product's connections alone, without parsing."""
    ssh = SshTransport(task.inventory)
    looks = BatchingSshTransport(ssh)

    async def one(name: str) -> int:
        rans = await asyncio.gather(*(looks.run(name, argv, timeout=SECONDS, cap=4 << 20) for argv in task.asked[name]))
        return sum(ran.exit_status is not None for ran in rans)

    try:
        return {"good": sum(await asyncio.gather(*(one(name) for name in task.asked)))}
    finally:
        await ssh.aclose()


async def product(task: Task) -> Found:
    """The whole product: redact, store and parse outputs, yield hosts as they finish."""
    ssh = SshTransport(task.inventory)
    fleet = Fleet(ssh, task.inventory, CHECKS, MemoryEvidence(), Clock(), task.skus, passive_transport=BatchingSshTransport(ssh))
    good, began, times = 0, time.perf_counter(), []
    try:
        async for answers in fleet.stream_host_answers("bench", [CheckRequest(host, check.id) for host in task.asked for check in PASSIVE]):
            good += sum(len(CHECKS[answer.check].commands) for answer in answers if not answer.could_not)
            times.append(round(time.perf_counter() - began, 2))
    finally:
        await ssh.aclose()
    return {"good": good, "first_host": times[0], "half": times[len(times) // 2], "last_but_one": times[-2]}


async def clustershell(task: Task) -> Found:
    """ClusterShell's fan-out of ssh processes; several commands share one connection per host."""
    return await asyncio.to_thread(_clustershell, task)


def _clustershell(task: Task) -> Found:
    events, tasks = import_module("ClusterShell.Event"), import_module("ClusterShell.Task")
    codes: list[int] = []
    count = type("Count", (events.EventHandler,), {"ev_hup": lambda self, worker, node, rc: codes.append(rc)})()
    lines = task.lines()
    shared = f" -o ControlMaster=auto -o ControlPersist=5 -o ControlPath={task.folder}/%n" if len(lines) > 1 else ""
    todo = tasks.task_self()
    todo.set_info("fanout", 64)
    todo.set_info("ssh_options", f"-F {task.folder / 'ssh_config'}{shared}")
    for line in lines:
        alike: dict[str, list[str]] = defaultdict(list)
        for host, words in line.items():
            alike[words].append(host)
        for words, hosts in alike.items():
            todo.shell(words, nodes=",".join(hosts), handler=count)
        todo.resume()
    return {"good": sum(code != SSH_FAILED for code in codes)}


async def parallel_ssh(task: Task) -> Found:
    """parallel-ssh (libssh2 under gevent; checks no host key): one round per command, connections kept."""
    return await asyncio.to_thread(_parallel_ssh, task)


def _parallel_ssh(task: Task) -> Found:
    clients, configs = import_module("pssh.clients"), import_module("pssh.config")
    rows = [task.inventory.hosts[name] for name in task.asked]
    config = [configs.HostConfig(port=row.port, user=row.user, private_key=row.key) for row in rows]
    client = clients.ParallelSSHClient([row.address for row in rows], host_config=config, pool_size=100)
    good = 0
    for line in task.lines():
        done = client.run_command("%s", host_args=tuple((line[row.name],) for row in rows), stop_on_errors=False)
        client.join(done, consume_output=True)
        good += sum(one.exit_code is not None for one in done)
    return {"good": good}


async def bastion(task: Task) -> Found:
    """All names lead to one OpenSSH with default MaxStartups (10:30:100): on drops, open fewer at once."""
    folder = task.folder / "bastion"
    folder.mkdir(exist_ok=True)
    async with sshd(folder, "MaxStartups 10:30:100") as server:
        reach = {"address": "127.0.0.1", "port": server.port, "user": getpass.getuser()}
        reach |= {"key": str(folder / "client"), "known_hosts": str(folder / "known_hosts")}
        names = [f"n{number}" for number in range(min(200, len(task.asked)))]
        ssh = SshTransport(parse_inventory({"groups": {"g": {"hosts": ",".join(names)}}, "hosts": dict.fromkeys(names, reach)}))
        began = time.perf_counter()
        rans = await asyncio.gather(*(ssh.run(name, ["true"], timeout=10, cap=10) for name in names), return_exceptions=True)
        seconds = time.perf_counter() - began
        await ssh.aclose()
    return {"good": sum(not isinstance(ran, BaseException) for ran in rans), "connected": round(seconds, 2)}


def imports(name: str) -> None:
    """Import an arm's libraries before the clock starts."""
    for module in NEEDS.get(name.rpartition("/")[2], ()):
        import_module(module)


NEEDS = {"clush": ("ClusterShell.Task", "ClusterShell.Event"), "parallel-ssh": ("pssh.clients", "pssh.config")}
ARMS: Mapping[str, Callable[[Task], Coroutine[Any, Any, Found]]] = {
    "wave/asyncssh": bare,
    "wave/asyncssh-gcm": lambda task: bare(task, encryption_algs=PREFERRED_CIPHERS),
    "wave/transport": transport,
    "wave/rackmedic": product,
    "wave/parallel-ssh": parallel_ssh,
    "wave/clush": clustershell,
    "dead/rackmedic": product,
    "one/asyncssh": bare,
    "one/rackmedic": transport,
    "one/clush": clustershell,
    "one/parallel-ssh": parallel_ssh,
    "bastion/rackmedic": bastion,
}
