"""The real kubectl against the stand-in API: as root in the node kit, and as RackMedic's reading account."""

import asyncio
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from deploy.kubernetes.api import KubeApi
from tests.support.fakes_nodekit import Node
from tools.transport import CommandResult

KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl")
MISSING = "kubectl is not installed: make setup-system"


def create_account_homes(root: Path, api: KubeApi) -> dict[str, Path]:
    """Create a home with kubeconfig for each account."""
    homes = {role: root / role for role in ("rackmedic-looks", "rackmedic-acts")}
    for role, home in homes.items():
        (home / ".kube").mkdir(parents=True, exist_ok=True)
        (home / ".kube/config").write_text(api.kubeconfig(role))
    return homes


def install(node: Node, api: KubeApi) -> None:
    """Install kubectl for this node's kit; calls are recorded."""
    home = create_account_homes(node.root, api)["rackmedic-acts"]
    node.stub("kubectl", f'HOME={home} KUBECONFIG= exec {KUBECTL} "$@"')


class LocalReadOnlyTransport:
    """A transport to the controller that runs commands locally with the reading account's kubeconfig."""

    def __init__(self, root: Path, api: KubeApi) -> None:
        home = create_account_homes(root, api)["rackmedic-looks"]
        (home / "bin").mkdir(exist_ok=True)
        (home / "bin/kubectl").symlink_to(KUBECTL or "kubectl")
        self._env = {"HOME": str(home), "PATH": f"{home / 'bin'}:/usr/bin:/bin"}
        self.recorded_commands: list[tuple[str, tuple[str, ...]]] = []

    async def run(self, host: str, argv: Sequence[str], *, timeout: float, cap: int) -> CommandResult:
        self.recorded_commands.append((host, tuple(argv)))
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(*argv, stdout=pipe, stderr=pipe, stdin=asyncio.subprocess.DEVNULL, env=self._env)
        out, err = await child.communicate()
        return CommandResult(out[:cap], err[:cap], child.returncode, truncated=len(out) > cap)

    async def aclose(self) -> None: ...
