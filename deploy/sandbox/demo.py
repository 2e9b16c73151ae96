"""The demo in one command: simulated cluster, local Slack, and the real bot as a child process, which does not know
either is simulated.

Everything is in one temporary folder and ends with this process.
"""

import asyncio
import contextlib
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from time import monotonic
from typing import Any, Protocol

import yaml

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.access.control import ControlServer
from deploy.sandbox.cluster.access.sshd import SshCluster
from deploy.sandbox.slack import SlackSandbox

NODES, JOB = 4, "4711"
START_SECONDS = 90.0
MANIFEST = Path(__file__).parents[1] / "slack" / "manifest.yaml"
CHANNELS = [
    {"channel": "C0GPUINC", "name": "gpu-incidents", "kind": "operators", "groups": ["demo"], "approvers": "S0GPUAPPR"},
]
# a tenant with two nodes and a channel shared with their workspace
CUSTOMER: Mapping[str, Any] = {
    "group": {"acme": {"hosts": "gpu-[003-004]", "tenant": "acme"}},
    "channel": {"channel": "C0CUSTACME", "name": "cust-acme", "kind": "tenant", "tenant": "acme", "internal": "C0GPUINC"},
}
INVITATION = """
    1. Choose "Break something" and break a node, for example G07 on gpu-003.
    2. In #gpu-incidents write:  @rackmedic job 4711 hangs with NCCL timeout on gpu-[001-004]
    3. Watch the card, read the diagnosis, ask "why" in the thread. Approve the fix as Priya (choose who you are at the top right) and
       watch it run and be proved; or press Hand off, and take and close the ticket as somebody else.
    4. The customer's side: "Both sides" at the top shows Acme's workspace beside ours. As Carla write in #cust-acme:
       @rackmedic job 4711 does not start on gpu-[003-004]

  The nodes are simulated, each behind an SSH server of its own; the bot is the real one (its log: {log}).
  Ctrl-C stops everything and leaves nothing behind.
"""


class BotEnvironment(Protocol):
    """An environment for a bot: a Slack and settings."""

    @property
    def slack(self) -> SlackSandbox: ...

    @property
    def settings(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The running sandbox and the bot's settings."""

    slack: SlackSandbox
    cluster: Cluster
    ssh: SshCluster
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class HttpEndpoint:
    """Port of a bot in HTTP mode, and `url`, where Slack reaches it (perhaps a proxy's)."""

    port: int
    url: str = ""
    secret: str = field(default_factory=lambda: secrets.token_hex(16))

    @property
    def address(self) -> str:
        return self.url or f"http://127.0.0.1:{self.port}/slack/events"

    @property
    def settings(self) -> Mapping[str, str]:
        return {"RACKMEDIC_SLACK_SIGNING_SECRET": self.secret, "RACKMEDIC_HTTP_PORT": str(self.port)}


def find_free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.asynccontextmanager
async def run_sandbox(
    directory: Path,
    nodes: int = NODES,
    port: int = 0,
    job: str = JOB,
    scheduler: str = "slurm",
    language: str = "",
    http: HttpEndpoint | None = None,
) -> AsyncIterator[Sandbox]:
    """Start cluster, control and Slack on loopback; stop them afterwards. `job` runs on all nodes, none if empty.
    `scheduler`: the one the inventory names; the controller has both. `language`: of the tenant, if there is one.
    `http`: use HTTP mode instead of Socket Mode.
    """
    cluster = Cluster.of("dgx-h100-8", nodes=[f"gpu-{n:03d}" for n in range(1, nodes + 1)], job=job, controller="ctl-1")
    async with (
        SshCluster(cluster, directory / "cluster", scheduler=scheduler) as ssh,
        ControlServer(cluster) as control,
        SlackSandbox(
            port=port,
            cluster_url=control.url,
            manifest=yaml.safe_load(MANIFEST.read_text()),
            events_url=http.address if http else "",
            signing_secret=http.secret if http else "",
        ) as slack,
    ):
        inventory = directory / "inventory.yaml"
        site = ssh.inventory() | {"channels": CHANNELS}
        inventory.write_text(yaml.safe_dump(add_customer(site, language) if language else site, sort_keys=False))
        settings = {
            "RACKMEDIC_SLACK_BOT_TOKEN": slack.bot_token,
            "RACKMEDIC_SLACK_API_URL": slack.api_url,
            "RACKMEDIC_INVENTORY": str(inventory),
            "RACKMEDIC_DATA_DIR": str(directory / "data"),
            "RACKMEDIC_CUSTOMERS": str(bool(language)).lower(),
        }
        settings |= http.settings if http else {"RACKMEDIC_SLACK_APP_TOKEN": slack.app_token}
        yield Sandbox(slack, cluster, ssh, settings)


def add_customer(site: Mapping[str, Any], language: str) -> dict[str, Any]:
    """Return the inventory with a tenant added."""
    channel = {**CUSTOMER["channel"], "language": language}
    return {**site, "groups": {**site["groups"], **CUSTOMER["group"]}, "channels": [*site["channels"], channel]}


@contextlib.asynccontextmanager
async def run_bot(world: BotEnvironment, environ: Mapping[str, str], log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the real bot, `rackmedic serve`, as a child process; stop it as a service manager would."""
    clean = {name: value for name, value in environ.items() if not name.startswith("RACKMEDIC_")}
    with log.open("ab") as sink:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "bot.cli", "serve", env=clean | dict(world.settings), stdout=sink, stderr=sink, start_new_session=True
        )
    try:
        yield child
    finally:
        if child.returncode is None:
            child.terminate()
            try:
                await asyncio.wait_for(child.wait(), 15)
            except TimeoutError:
                child.kill()
                await child.wait()


async def run_demo(environ: Mapping[str, str], port: int = 0, *, http: bool = False) -> int:
    """Run the demo until Ctrl-C and return the exit code. `http`: use HTTP mode."""
    with tempfile.TemporaryDirectory(prefix="rackmedic-demo-") as folder:
        async with run_sandbox(Path(folder), port=port, language="en", http=HttpEndpoint(find_free_port()) if http else None) as world:
            return await run_until_stopped(world, environ, Path(folder) / "bot.log", INVITATION)


async def run_until_stopped(world: BotEnvironment, environ: Mapping[str, str], log: Path, invitation: str) -> int:
    """Run the bot until Ctrl-C or its death and return the exit code."""
    began, stop = monotonic(), asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    async with run_bot(world, environ, log) as child:
        listening = await _wait_until_ready(world, child, stop)
        if listening:
            print(
                f"\n  RackMedic is listening ({monotonic() - began:.0f} s). Open  {world.slack.url}\n{invitation.format(log=log)}",
                flush=True,
            )
            await _wait_until_stopped(child, stop)
        died = not stop.is_set()
        if died:
            print(f"the bot {'ended by itself' if listening else 'did not start'}; the end of its log:\n{_read_tail(log)}", file=sys.stderr)
        return 1 if died else 0


async def _wait_until_ready(world: BotEnvironment, child: asyncio.subprocess.Process, stop: asyncio.Event) -> bool:
    """Wait until the bot listens (True), dies, or a stop is requested."""
    listening = asyncio.create_task(world.slack.connected(timeout=START_SECONDS))
    waits = {listening, asyncio.create_task(child.wait()), asyncio.create_task(stop.wait())}
    done, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    return listening in done and listening.exception() is None


async def _wait_until_stopped(child: asyncio.subprocess.Process, stop: asyncio.Event) -> None:
    waits = {asyncio.create_task(child.wait()), asyncio.create_task(stop.wait())}
    _, pending = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()


def _read_tail(log: Path, lines: int = 15) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
