"""GPUs for a rack without any: the tools that would ask a driver ask the simulated cluster over HTTP. The rest is real."""

import asyncio
import shlex
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from aiohttp import web

from deploy.lab.container import run_checked_in_node
from deploy.lab.layout import NODES, Rack, Role
from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.answer import HANGING, ShellAnswer
from deploy.sandbox.cluster.grammar import recognise_command

DRIVER_TOOLS = ("nvidia-smi", "lspci", "lsmod", "modinfo", "dmesg")
STUB = r"""#!/bin/sh
# asks the rack's simulated GPUs; the answer's status is the exit status and 200. A BMC that cuts the power does so: nothing is shut down before
out=$(mktemp -p /dev/shm) || exit 1
trap 'rm -f "$out"' EXIT
boot=$(cat /proc/sys/kernel/random/boot_id)
code=$(printf '%s\0' "$boot" "${0##*/}" "$@" | curl --silent --output "$out" --write-out '%{http_code}' --data-binary @- @URL@)
cat "$out"
case "${0##*/} $*/$code" in 'ipmitool chassis power cycle/200') setsid sh -c 'sleep 1; systemctl reboot --force --force' >/dev/null 2>&1 & ;; esac
[ "$code" -ge 200 ] && exit $((code - 200))
echo "${0##*/}: the simulated GPUs are not there" >&2
exit 1
"""
BMC_TOOLS = ("ipmitool",)
# Optional tools: a simulated BMC that really kills its node, and a simulated engine behind a real systemd unit.
ENGINE_TOOLS = ("docker", "nvidia-ctk")
DOCKER_UNIT = "/etc/systemd/system/docker.service"
SYSTEMCTL_STUB = "/usr/local/lib/lab/systemctl"
# A real systemd unit; the simulated engine is notified of each start.
DOCKER_UNIT_TEXT = f"""[Unit]
Description=Simulated container engine

[Service]
ExecStartPre={SYSTEMCTL_STUB} restart docker.service
ExecStart=/bin/sleep infinity
"""
# Services that a healthy machine with these GPUs runs. They start again after a reboot.
SERVICES = ("nvidia-fabricmanager", "nvidia-persistenced")
SERVICE_TEXT = """[Unit]
Description=Simulated service of the GPUs

[Service]
ExecStart=/bin/sleep infinity

[Install]
WantedBy=multi-user.target
"""
HOST_PARAMETER = "host"


class RackGpus:
    """Async context manager: the simulated GPUs behind a rack's tools. A reboot of a node reboots its simulated node
    too.
    """

    def __init__(self, rack: Rack, cluster: Cluster, extra_tools: Sequence[str] = ()) -> None:
        self.rack, self.cluster = rack, cluster
        self._tools = (*DRIVER_TOOLS, *extra_tools)
        self.calls: list[tuple[str, ...]] = []  # queries: host and words
        self._boots: dict[str, str] = {}
        self._fixed_answers: dict[str, ShellAnswer] = {}
        self._closing = asyncio.Event()
        app = web.Application()
        app.add_routes([web.post(f"/{{{HOST_PARAMETER}}}", self._serve)])
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)

    @classmethod
    def healthy(cls, rack: Rack, extra_tools: Sequence[str] = ()) -> Self:
        """Return a cluster of eight healthy, idle GPUs per GPU node, with extra tools such as BMC or ENGINE."""
        cluster = Cluster.of("dgx-h100-8", nodes=[node.name for node in NODES if node.role is Role.GPU], pace=0.0)
        cluster.stop_job()
        return cls(rack, cluster, extra_tools)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, self.rack.gateway, 0).start()
        url = f"http://{self.rack.gateway}:{self._runner.addresses[0][1]}"
        await asyncio.to_thread(self._install, url)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._closing.set()
        await self._runner.cleanup()
        await asyncio.to_thread(self._remove)

    def hang(self, host: str) -> None:
        """Make the host's nvidia-smi hang."""
        self._fixed_answers[host] = HANGING

    def die(self, host: str, answer: ShellAnswer) -> None:
        """Make the host's nvidia-smi give only this answer."""
        self._fixed_answers[host] = answer

    def recover(self, host: str) -> None:
        """Make the host's nvidia-smi answer normally again."""
        self._fixed_answers.pop(host, None)

    def _install(self, url: str) -> None:
        for node in NODES:
            if node.role is Role.GPU:
                stub = STUB.replace("@URL@", shlex.quote(f"{url}/{node.name}"))
                for path in self._paths:
                    write_stub = f"mkdir -p {shlex.quote(path.rpartition('/')[0])} && cat > {path} && chmod 755 {path}"
                    run_checked_in_node(self.rack, node, "sh", "-c", write_stub, stdin=stub)
                files = " ".join(f"/etc/systemd/system/{name}.service" for name in SERVICES)
                start_services = f"tee {files} > /dev/null && systemctl enable --quiet --now {' '.join(SERVICES)}"
                run_checked_in_node(self.rack, node, "sh", "-c", start_services, stdin=SERVICE_TEXT)
                if self._has_engine:
                    run_checked_in_node(
                        self.rack,
                        node,
                        "sh",
                        "-c",
                        f"cat > {DOCKER_UNIT} && systemctl daemon-reload && systemctl start docker",
                        stdin=DOCKER_UNIT_TEXT,
                    )

    def _remove(self) -> None:
        for node in NODES:
            if node.role is Role.GPU:
                if self._has_engine:
                    run_checked_in_node(self.rack, node, "sh", "-c", f"systemctl stop docker; rm -f {DOCKER_UNIT}; systemctl daemon-reload")
                run_checked_in_node(self.rack, node, "systemctl", "disable", "--quiet", "--now", *SERVICES)
                run_checked_in_node(
                    self.rack, node, "rm", "-f", *(f"/etc/systemd/system/{name}.service" for name in SERVICES), *self._paths
                )

    @property
    def _has_engine(self) -> bool:
        return set(ENGINE_TOOLS) <= set(self._tools)

    @property
    def _paths(self) -> list[str]:
        return [*(f"/usr/local/bin/{tool}" for tool in self._tools), *([SYSTEMCTL_STUB] if self._has_engine else [])]

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        host = request.match_info[HOST_PARAMETER]
        boot, *argv = (await request.read()).decode(errors="replace").removesuffix("\0").split("\0")
        self.calls.append((host, *argv))
        self._follow_boot(host, boot)
        answer = self._fixed_answers[host] if host in self._fixed_answers and argv[0] == "nvidia-smi" else self._answer(host, argv)
        self.cluster.command_log.append(host, argv, answer)
        if answer.hangs:
            await self._closing.wait()
        return web.Response(status=200 + answer.status, body=answer.stdout + answer.stderr)

    def _follow_boot(self, host: str, boot: str) -> None:
        """Reboot the simulated node when the boot id changed."""
        if self._boots.setdefault(host, boot) != boot:
            self._boots[host] = boot
            self.cluster.go_down(host, "rebooting")
            self.cluster.come_up(host)

    def _answer(self, host: str, argv: Sequence[str]) -> ShellAnswer:
        if (changed := self.cluster.carry_out(host, argv)) is not None:
            return changed.answer
        return self.cluster.answer_root(host, argv) if recognise_command(argv) else self.cluster.refuse(host, argv)
