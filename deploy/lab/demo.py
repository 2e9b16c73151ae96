"""The story of `make demo` on a rack: a local Slack and the real bot, which knows nothing of either."""

from collections.abc import Mapping
from dataclasses import dataclass

import yaml

from deploy.lab.layout import Rack
from deploy.sandbox.demo import MANIFEST, play
from deploy.sandbox.slack import SlackSandbox

INVITATION = """
    1. In another terminal:  python -m deploy.lab in gpu-002 -- systemctl stop chrony
    2. In #gpu-incidents write:  @rackmedic check gpu-[001-003], the clocks disagree
    3. Read the card, ask "why" in the thread, approve the fix as Priya (choose who you are at the top right).

  Slurm, sshd, systemd, sudo and chrony are the real ones; GPUs are not there. The bot's log: {log}
  Ctrl-C stops everything and leaves nothing behind (make lab-down, where this terminal was closed).
"""


@dataclass(frozen=True, slots=True)
class RackWorld:
    """A local Slack beside the rack, and the settings that make a bot live there."""

    slack: SlackSandbox
    settings: Mapping[str, str]


def rack_world(rack: Rack, slack: SlackSandbox) -> RackWorld:
    """The settings are those of the inventory that the rack's installer wrote; its data lie in the rack's folder and go with it."""
    settings = {
        "RACKMEDIC_SLACK_BOT_TOKEN": slack.bot_token,
        "RACKMEDIC_SLACK_APP_TOKEN": slack.app_token,
        "RACKMEDIC_SLACK_API_URL": slack.api_url,
        "RACKMEDIC_INVENTORY": str(rack.inventory),
        "RACKMEDIC_DATA_DIR": str(rack.folder / "data"),
    }
    return RackWorld(slack, settings)


async def on_the_rack(rack: Rack, environ: Mapping[str, str], port: int = 0) -> int:
    """Until Ctrl-C. Returns the exit code."""
    async with SlackSandbox(port=port, manifest=yaml.safe_load(MANIFEST.read_text())) as slack:
        return await play(rack_world(rack, slack), environ, rack.folder / "bot.log", INVITATION)
