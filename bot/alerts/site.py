"""The site's file about alerts (settings: `alerts`): who may send them, where incidents open, and which labels mean what."""

from collections.abc import Collection, Mapping
from pathlib import Path

from pydantic import Field, SecretStr

from bot.alerts.labels import AlertLabels
from bot.alerts.routing import AlertRouting, Routes
from bot.inbound.webhook import key_of
from kb.shapes import StrictModel
from kb.yaml import Problems, read, validated
from tools.inventory.hosts import Inventory

LEAST_SECRET = 16


class BadAlerts(ValueError):
    """A file that is refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class AlertSite(StrictModel):
    """`channel` is bound to the operators by the inventory, and takes what no route leads elsewhere. `minutes`: a cause that fires again within them
    is the same incident."""

    channel: str
    token: SecretStr = SecretStr("")
    user: str = ""
    password: SecretStr = SecretStr("")
    keys: tuple[SecretStr, ...] = ()
    labels: AlertLabels = AlertLabels()
    routes: Routes = ()
    minutes: float = Field(30.0, gt=0, le=24 * 60)

    def routing(self, hosts: Mapping[str, Collection[str]], known: Collection[str] = ()) -> AlertRouting:
        """The routes over what the inventory binds: `hosts` by channel of the operators, `known` all of them."""
        return AlertRouting(self.channel, self.routes, hosts, known)

    def signing(self) -> tuple[bytes, ...]:
        return tuple(key_of(key.get_secret_value()) for key in self.keys)


def load_alerts(path: Path, inventory: Inventory | None = None) -> AlertSite:
    """Raises BadAlerts with every problem; a secret is never printed."""
    problems = Problems()
    document = read(path, problems)
    site = validated(document, AlertSite, problems) if document else None
    if document and site:
        for name, says in _problems(site, inventory):
            problems.note(document.place(name), says)
    if site is None or problems.found:
        raise BadAlerts(tuple(problems.found))
    return site


def _problems(site: AlertSite, inventory: Inventory | None) -> list[tuple[str, str]]:
    found = []
    bound = {row.channel for row in inventory.channels if row.kind == "operators"} if inventory else {site.channel}
    if site.channel not in bound:
        found.append(("channel", f"{site.channel} is not bound to the operators by the inventory: {', '.join(sorted(bound)) or 'none is'}"))
    for name in ("token", "password"):
        secret = getattr(site, name).get_secret_value()
        if 0 < len(secret) < LEAST_SECRET:
            found.append((name, f"must have at least {LEAST_SECRET} characters; make one with `openssl rand -hex 32`"))
    if bool(site.user) != bool(site.password.get_secret_value()):
        found.append(("user", "goes with password; set both, or neither"))
    if not (site.token.get_secret_value() or site.user or site.keys):
        found.append(("channel", "nobody may send: set token, user and password, or keys"))
    try:
        site.signing()
    except ValueError as why:
        found.append(("keys", str(why)))
    return found
