"""Answers of `init` as inventory and settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from bot.cli.setup.questions import (
    Answers,
    is_source,
)
from tools.inventory.host_ranges import expand_host_range

INVENTORY_FILE = "inventory.yaml"
SETTINGS_FILE = "rackmedic.yaml"
REACH_FIELDS = ("user", "key", "known_hosts", "jump", "controller")  # answers on how hosts are reached
CONTROL_GROUP = "control"
SETTING_FIELDS = ("slack_bot_token", "slack_app_token", "redis_url", "data_dir")  # answers that are bot settings
INVENTORY_HEADER = (
    "# Which hosts there are, how they are reached, and which channels speak of them. What else can stand here: docs/inventory.md\n"
)
SETTINGS_HEADER = "# Settings of RackMedic; `rackmedic settings` lists them all. It holds secrets: for the bot's account only.\n"


def build_inventory(answers: Answers) -> dict[str, Any]:
    hosts, group = answers["hosts"], answers["group"]
    row = {"sku": answers["sku"], "job_logs": answers["job_logs"]}
    reach: dict[str, Any] = {**{name: answers[name] for name in REACH_FIELDS}, "kit": has_repairs_enabled(answers)}
    if answers["controller"] and answers["scheduler"] == "kubernetes":
        reach["scheduler"] = answers["scheduler"]
    document: dict[str, Any] = {"defaults": _drop_empty_values(reach)}
    if is_source(hosts):  # a source has its own groups, so common fields go to `defaults`
        kind, _, source = hosts.partition(":")
        document["defaults"] |= _drop_empty_values(row)
        document |= {"groups": {}, "sources": [{kind: source}]}
    else:
        document["groups"] = {group: {"hosts": hosts, **_drop_empty_values(row)}}
    controller = answers["controller"]
    if controller and (is_source(hosts) or controller not in expand_host_range(hosts)):
        document["groups"][CONTROL_GROUP] = {"hosts": controller}  # each host needs a group, and the controller is in no other
    if answers["channel"]:
        channel = {"channel": answers["channel"], "kind": "operators", "approvers": answers["approvers"]}
        document["channels"] = [_drop_empty_values(channel)]
    return document


def build_settings(answers: Answers, folder: Path) -> dict[str, Any]:
    """Return the settings; unanswered ones keep their defaults."""
    return {"inventory": str(folder / INVENTORY_FILE)} | _drop_empty_values({name: answers[name] for name in SETTING_FIELDS})


def has_repairs_enabled(answers: Answers) -> bool:
    return answers["repairs"].lower().startswith("y")


def render_site_files(answers: Answers, folder: Path) -> Mapping[str, str]:
    return {
        INVENTORY_FILE: INVENTORY_HEADER + _dump_yaml(build_inventory(answers)),
        SETTINGS_FILE: SETTINGS_HEADER + _dump_yaml(build_settings(answers, folder)),
    }


def _drop_empty_values(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if value != ""}


def _dump_yaml(document: Mapping[str, Any]) -> str:
    return str(yaml.safe_dump(dict(document), sort_keys=False, default_flow_style=False, width=120))
