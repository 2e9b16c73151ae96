"""`make demo` on a rack: a local Slack and the real bot, which does not know that either is simulated."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml

from deploy.lab.gpus import RackGpus
from deploy.lab.layout import Rack
from deploy.sandbox.cluster.access.control import ControlServer
from deploy.sandbox.demo import MANIFEST, run_until_stopped
from deploy.sandbox.slack import SlackSandbox

INVITATION = """
    1. Choose "Break something" and break a GPU, for example G07 on gpu-002. Everything else is broken in a terminal, as in
       python -m deploy.lab in gpu-003 -- systemctl stop slurmd
    2. In #gpu-incidents write:  @rackmedic training hangs on gpu-[001-003]
    3. Read the card, ask "why" in the thread, approve the fix as Priya and as Anton (choose who you are at the top right), and watch it in
       python -m deploy.lab in ctl -- sinfo -N -l

  Slurm, sshd, systemd, sudo and chrony are the real ones, the GPUs are simulated. The bot's log: {log}
  Ctrl-C stops everything and leaves nothing behind (make lab-down, where this terminal was closed).
"""


@dataclass(frozen=True, slots=True)
class RackWorld:
    """A local Slack beside the rack, and the bot's settings for both."""

    slack: SlackSandbox
    settings: Mapping[str, str]


def build_rack_world(rack: Rack, slack: SlackSandbox, data: Path, overrides: Mapping[str, str] | None = None) -> RackWorld:
    """Return the rack's world with the settings of a bot whose data folder is `data`; `overrides` win."""
    settings = {
        "RACKMEDIC_SLACK_BOT_TOKEN": slack.bot_token,
        "RACKMEDIC_SLACK_APP_TOKEN": slack.app_token,
        "RACKMEDIC_SLACK_API_URL": slack.api_url,
        "RACKMEDIC_INVENTORY": str(rack.inventory),
        "RACKMEDIC_DATA_DIR": str(data),
        **(overrides or {}),
    }
    return RackWorld(slack, settings)


async def run_demo(rack: Rack, environ: Mapping[str, str], port: int = 0) -> int:
    """Run the demo until Ctrl-C and return the exit code."""
    manifest = yaml.safe_load(MANIFEST.read_text())
    async with (
        RackGpus.healthy(rack) as gpus,
        ControlServer(gpus.cluster) as control,
        SlackSandbox(port=port, cluster_url=control.url, manifest=manifest) as slack,
    ):
        return await run_until_stopped(build_rack_world(rack, slack, rack.data), environ, rack.folder / "bot.log", INVITATION)
