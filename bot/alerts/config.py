"""The site's alerts file (setting `alerts`): senders, labels and routes to channels."""

from collections.abc import Collection, Mapping
from pathlib import Path

from pydantic import Field, SecretStr

from bot.alerts.alert import AlertLabels
from bot.alerts.routing import AlertRoutes, AlertRouting
from bot.signed_messages import parse_webhook_key
from kb.schema import StrictModel
from kb.yaml_files import Problems, read_document, validate_document
from tools.inventory.inventory import Inventory

MIN_SECRET_CHARS = 16


class BadAlerts(ValueError):
    """A file that is refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class AlertConfig(StrictModel):
    """The alerts file of a site: who may send alerts, and where they open incidents."""

    channel: str  # an operators' channel of the inventory, for alerts that match no route
    token: SecretStr = SecretStr("")
    user: str = ""
    password: SecretStr = SecretStr("")
    keys: tuple[SecretStr, ...] = ()
    labels: AlertLabels = AlertLabels()
    routes: AlertRoutes = ()
    minutes: float = Field(30.0, gt=0, le=24 * 60)  # a repeat within this time joins the open incident

    def build_routing(self, hosts: Mapping[str, Collection[str]], known: Collection[str] = ()) -> AlertRouting:
        """Return the routing. `hosts`: by operators' channel; `known`: all hosts."""
        return AlertRouting(self.channel, self.routes, hosts, known)

    def get_signing_keys(self) -> tuple[bytes, ...]:
        return tuple(parse_webhook_key(key.get_secret_value()) for key in self.keys)


def load_alert_config(path: Path, inventory: Inventory | None = None) -> AlertConfig:
    """Load the file. Raise BadAlerts with every problem; secrets are never printed."""
    problems = Problems()
    document = read_document(path, problems)
    site = validate_document(document, AlertConfig, problems) if document else None
    if document and site:
        for name, problem in _find_problems(site, inventory):
            problems.add(document.find_position(name), problem)
    if site is None or problems.found:
        raise BadAlerts(tuple(problems.found))
    return site


def _find_problems(site: AlertConfig, inventory: Inventory | None) -> list[tuple[str, str]]:
    problems = []
    bound = {channel.channel for channel in inventory.channels if channel.kind == "operators"} if inventory else {site.channel}
    if site.channel not in bound:
        problems.append(
            ("channel", f"{site.channel} is not bound to the operators by the inventory: {', '.join(sorted(bound)) or 'none is'}")
        )
    for name in ("token", "password"):
        secret = getattr(site, name).get_secret_value()
        if 0 < len(secret) < MIN_SECRET_CHARS:
            problems.append((name, f"must have at least {MIN_SECRET_CHARS} characters; make one with `openssl rand -hex 32`"))
    if bool(site.user) != bool(site.password.get_secret_value()):
        problems.append(("user", "goes with password; set both, or neither"))
    if not (site.token.get_secret_value() or site.user or site.keys):
        problems.append(("channel", "no sender can authenticate: set token, user and password, or keys"))
    try:
        site.get_signing_keys()
    except ValueError as error:
        problems.append(("keys", str(error)))
    return problems
