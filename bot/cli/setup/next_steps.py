"""Manual steps that remain after `init`, in order."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bot.cli.doctor.finding import Finding
from bot.cli.setup.files import INVENTORY_FILE, SETTINGS_FILE, has_repairs_enabled
from bot.cli.setup.questions import Answers


@dataclass(frozen=True, slots=True)
class SetupStep:
    do: str
    lines: tuple[str, ...] = ()


APPLY_ROLES_COMMAND = "kubectl apply -f deploy/kubernetes/rbac.yaml"


def list_remaining_steps(answers: Answers, findings: Sequence[Finding], public: str, folder: Path) -> list[SetupStep]:
    steps = [*_list_node_steps(answers, findings, public), *_list_slack_steps(answers, folder), *_list_other_steps(findings)]
    start = (f"rackmedic doctor --config {folder / SETTINGS_FILE}", f"rackmedic serve --config {folder / SETTINGS_FILE}")
    return [*steps, SetupStep("Try again until nothing fails, then start it:", start)]


def _list_node_steps(answers: Answers, findings: Sequence[Finding], public: str) -> list[SetupStep]:
    failed = {finding.part for finding in findings if finding.state == "fail"}
    reached = any(finding.part == "ssh" and finding.state == "ok" for finding in findings) and "ssh" not in failed
    steps = []
    if not reached:
        steps.append(SetupStep(f"Write every node's host key, by its address, into {answers['known_hosts']}, from where you can trust it."))
        steps.append(
            SetupStep(
                f"Let the account {answers['user']} in on every node, and on the controller, with this key (docs/rollout.md, 3):", (public,)
            )
        )
    if has_repairs_enabled(answers) and (not reached or "node kit" in failed):
        install = (
            "rackmedic node-kit --out rackmedic-kit",
            "scp -r rackmedic-kit NODE:",
            "ssh NODE 'sudo rm -rf /root/rackmedic-kit && sudo cp -r rackmedic-kit /root/'",
            f"echo '{public}' | ssh NODE 'sudo sh /root/rackmedic-kit/install.sh --key /dev/stdin && sudo sshd -t && sudo systemctl reload ssh'",
        )
        steps.append(
            SetupStep("Install the node kit on every node and on the controller (docs/rollout.md has it as an Ansible role):", install)
        )
    if has_repairs_enabled(answers) and not answers["controller"]:
        steps.append(
            SetupStep(f"Name the scheduler's controller in {INVENTORY_FILE} (`controller:`), or nothing is drained before it is repaired.")
        )
    if has_repairs_enabled(answers) and answers["controller"] and answers["scheduler"] == "kubernetes":
        steps.append(
            SetupStep("Give the controller its two kubeconfigs, one to look and one to act (docs/rollout.md, 4).", (APPLY_ROLES_COMMAND,))
        )
    return steps


def _list_slack_steps(answers: Answers, folder: Path) -> list[SetupStep]:
    steps = []
    if not (answers["slack_bot_token"] and answers["slack_app_token"]):
        steps.append(
            SetupStep(f"Make the Slack app from its manifest and write both tokens into {folder / SETTINGS_FILE}:", ("rackmedic manifest",))
        )
    if not answers["channel"]:
        steps.append(
            SetupStep(
                f"Bind your on-call channel in {folder / INVENTORY_FILE}:", ("channels:", "  - {channel: C0123456789, kind: operators}")
            )
        )
    return [*steps, SetupStep("Invite the bot into the channel:", ("/invite @rackmedic",))]


def _list_other_steps(findings: Sequence[Finding]) -> list[SetupStep]:
    rest = [finding for finding in findings if finding.part in ("redis", "inventory", "model") and finding.state in ("fail", "warn")]
    return [SetupStep(f"{finding.part}: {finding.says}", (finding.mend,) if finding.mend else ()) for finding in rest]
