"""One process against many hosts: `python -m tests.bench.perf.fleet [--hosts 100] [--json OUT]`.

Compare ratios of one run, never seconds alone. All arms use the same simulated nodes behind real SSH servers in another
process. `wave`: every passive command of every check on every host, by bare asyncssh, parallel-ssh, ClusterShell and
the product (which also redacts, stores and parses). `dead`: one more host that never answers. `one`: a single command
per host. `bastion`: all hosts through one OpenSSH server with default MaxStartups. Each arm has its own process, so
memory is its own, with the product's garbage collector settings; libraries are imported before the clock starts. CPU
seconds include child processes.
"""

import argparse
import asyncio
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from bot.app.gc_tuning import relax_garbage_collection
from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.sshd import SshCluster
from tests.bench.perf.fleet_arms import ARMS, imports, prepared
from tests.support.fixtures_sshd import SSHD
from tests.support.inventories import inventory_of
from tools.inventory.inventory import Host

SLOW = ("wave/clush",)  # on request only: thousands of processes
PAIRS = (
    ("wave/asyncssh-gcm", "wave/asyncssh"),
    ("wave/transport", "wave/asyncssh"),
    ("wave/transport", "wave/asyncssh-gcm"),
    ("wave/rackmedic", "wave/asyncssh"),
    ("wave/rackmedic", "wave/asyncssh-gcm"),
    ("wave/parallel-ssh", "wave/rackmedic"),
    ("wave/clush", "wave/rackmedic"),
    ("one/rackmedic", "one/asyncssh"),
    ("one/clush", "one/rackmedic"),
    ("one/parallel-ssh", "one/rackmedic"),
)


async def serve(folder: Path, hosts: int) -> None:
    """Serve a healthy cluster until stdin closes, and one host that accepts connections and never answers."""
    nodes = [f"gpu-{number:04}" for number in range(1, hosts + 1)]
    await SshCluster(Cluster.of(nodes=nodes), folder).__aenter__()
    rows = inventory_of(folder / "inventory.yaml").hosts.values()
    (folder / "ssh_config").write_text("".join(_ssh_config(row) for row in rows))
    mute = socket.create_server(("127.0.0.1", 0), backlog=1000)
    plain = yaml.safe_load((folder / "inventory.yaml").read_text())
    plain["groups"]["dead"] = {"hosts": "dead-1"}
    plain["hosts"]["dead-1"] = {"address": "127.0.0.1", "port": mute.getsockname()[1]}
    (folder / "with_dead.yaml").write_text(yaml.safe_dump(plain))
    print("ready", flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    os._exit(0)  # closing thousands of connections would prove nothing


def _ssh_config(row: Host) -> str:
    return (
        f"Host {row.name}\n HostName {row.address}\n Port {row.port}\n User {row.user}\n IdentityFile {row.key}\n IdentitiesOnly yes\n"
        f" UserKnownHostsFile {row.known_hosts}\n StrictHostKeyChecking yes\n LogLevel ERROR\n"
    )


def arm(name: str, folder: Path) -> dict[str, Any]:
    imports(name)
    task = prepared(name, folder)
    relax_garbage_collection()
    cpu, began = _cpu(), time.perf_counter()
    found = asyncio.run(ARMS[name](task))
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return {"seconds": round(seconds, 2), **found, "cpu_seconds": round(_cpu() - cpu, 2), "peak_mib": peak}


def _cpu() -> float:
    each = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in each)


def why_not(name: str, slow: bool) -> str:
    if name in SLOW and not slow:
        return "only with --slow"
    if name.endswith("parallel-ssh"):
        found = subprocess.run([sys.executable, "-c", "import pssh"], capture_output=True, check=False)
        return "" if found.returncode == 0 else "parallel-ssh is not installed"
    if name.endswith("clush"):
        found = subprocess.run([sys.executable, "-c", "import ClusterShell"], capture_output=True, check=False)
        return "" if shutil.which("ssh") and found.returncode == 0 else "ClusterShell or ssh is not installed"
    return "" if name != "bastion/rackmedic" or SSHD else "openssh-server is not installed"


def measure(hosts: int, rounds: int, only: str, slow: bool) -> dict[str, Any]:
    """Run all arms on the same servers `rounds` times in turn; return medians."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    me = [sys.executable, "-m", "tests.bench.perf.fleet"]
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in ARMS if name.startswith(only)}
    reasons = {name: why_not(name, slow) for name in rows}
    with tempfile.TemporaryDirectory() as folder:
        words = [*me, "--serve", folder, "--hosts", str(hosts)]
        with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            try:
                subprocess.run([*me, "--arm", next(iter(rows)), "--serve", folder], capture_output=True, check=True)  # warm up the nodes
                for name in [name for _ in range(rounds) for name in rows if not reasons[name]]:
                    ran = subprocess.run([*me, "--arm", name, "--serve", folder], capture_output=True, text=True, check=False)
                    if ran.returncode:
                        raise RuntimeError(f"{name} failed: {ran.stderr[-2000:]}")
                    rows[name].append(json.loads(ran.stdout.splitlines()[-1]))
                    print(f"{name}: {rows[name][-1]}", file=sys.stderr, flush=True)
            finally:
                server.stdin.close() if server.stdin else None
    arms = {name: _median(found) if found else {"not_run": reasons[name]} for name, found in rows.items()}
    return {"schema": 2, "hosts": hosts, "rounds": rounds, "open_files": soft, "load": os.getloadavg()[0], "arms": arms}


def _median(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {field: statistics.median(row[field] for row in found) for field in found[0]}


def ratios(arms: Mapping[str, Mapping[str, Any]], of: str) -> dict[str, float]:
    """Return each arm's time or CPU relative to its pair."""
    both = [(above, below) for above, below in PAIRS if of in arms.get(above, {}) and of in arms.get(below, {})]
    return {f"{above} : {below}": round(arms[above][of] / arms[below][of], 2) for above, below in both if arms[below][of]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="", help="arms whose name begins so")
    parser.add_argument("--slow", action="store_true", help=f"also {', '.join(SLOW)}")
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
    result = measure(given.hosts, given.rounds, given.only, given.slow)
    result["ratios"] = ratios(result["arms"], "seconds")
    result["cpu_ratios"] = ratios(result["arms"], "cpu_seconds")
    print(json.dumps(result, indent=1))
    if given.json:
        given.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
