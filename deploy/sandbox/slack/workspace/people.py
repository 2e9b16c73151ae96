"""The people of the workspace and the installed app."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from deploy.sandbox.slack.workspace.pane import PaneView
from deploy.sandbox.slack.workspace.refusal import JSON

HOME_TEAM = "T0RACK"
ACME_TEAM = "T0ACME"
BOT_USER = "U0RACKMED"
EPOCH = 1_700_000_000


# fields that Slack returns only for members and people in shared channels
# (docs.slack.dev/reference/objects/user-object)
MEMBER_FIELDS = frozenset(
    {"deleted", "is_admin", "is_owner", "is_primary_owner", "is_restricted", "is_ultra_restricted", "tz", "tz_offset"}
)


@dataclass(frozen=True, slots=True)
class Team:
    id: str
    name: str
    domain: str


@dataclass(slots=True)
class User:
    id: str
    name: str
    real_name: str
    role: str
    team_id: str = HOME_TEAM
    is_bot: bool = False
    is_restricted: bool = False
    is_ultra_restricted: bool = False
    deleted: bool = False
    organisation: str = ""  # the `E…` id that events may carry instead of the team's
    stranger: bool | None = None  # None: derived, a foreign user in no channel that the app can see

    def wire(self, is_stranger: bool) -> JSON:
        """Return the user as `users.info` does. For strangers it omits the flags that decide on rights."""
        fields = self._wire(is_stranger)
        if not is_stranger:
            return fields
        public_fields = {key: value for key, value in fields.items() if key not in MEMBER_FIELDS}
        return public_fields | {"profile": {key: value for key, value in fields["profile"].items() if key != "email"}}

    def _wire(self, is_stranger: bool) -> JSON:
        names = {"real_name": self.real_name, "display_name": self.name, "email": f"{self.name}@example.com"}
        body: JSON = {
            "id": self.id,
            "team_id": self.team_id,
            "name": self.name,
            "real_name": self.real_name,
            "deleted": self.deleted,
            "tz": "Etc/UTC",
            "tz_offset": 0,
            "profile": {**names, "team": self.team_id, "real_name_normalized": self.real_name},
            "is_admin": False,
            "is_owner": False,
            "is_primary_owner": False,
            "is_restricted": self.is_restricted,
            "is_ultra_restricted": self.is_ultra_restricted,
            "is_stranger": is_stranger,
            "is_bot": self.is_bot,
            "is_app_user": False,
            "updated": EPOCH,
        }
        if self.is_bot:
            body["profile"] |= {"api_app_id": App.id, "bot_id": App.bot_id}
        return body


@dataclass(slots=True)
class UserGroup:
    id: str
    handle: str
    name: str
    users: list[str]

    def wire(self, with_users: bool) -> JSON:
        body: JSON = {"id": self.id, "team_id": HOME_TEAM, "is_usergroup": True, "name": self.name, "handle": self.handle}
        body |= {"description": "", "date_create": EPOCH, "date_delete": 0, "user_count": len(self.users)}
        return body | ({"users": list(self.users)} if with_users else {})


@dataclass
class App:
    """The installed app, with the rights its manifest requests."""

    id = "A0RACKMED"
    bot_id = "B0RACKMED"
    name: str = "RackMedic"
    commands: list[JSON] = field(default_factory=lambda: [{"command": "/rackmedic", "description": "Ask RackMedic"}])
    shortcuts: list[JSON] = field(default_factory=lambda: [{"name": "Diagnose this", "type": "message", "callback_id": "diagnose_this"}])
    scopes: frozenset[str] | None = None
    events: frozenset[str] | None = None
    view: PaneView = "agent"

    @classmethod
    def from_manifest(cls, manifest: JSON) -> "App":
        """Return the app of a manifest, without any scope or event that it does not request."""
        features, settings = manifest.get("features", {}), manifest.get("settings", {})
        scopes: Any = manifest.get("oauth_config", {}).get("scopes", {}).get("bot")
        events: Any = settings.get("event_subscriptions", {}).get("bot_events")
        view: PaneView = "assistant" if "assistant_view" in features else ""
        if "agent_view" in features:
            view = "agent"
        # Slack requires the feature for this scope (github.com/openclaw/openclaw/pull/67650)
        ungranted = frozenset() if view else frozenset({"assistant:write"})
        return cls(
            name=manifest.get("display_information", {}).get("name", "RackMedic"),
            commands=list(features.get("slash_commands", [])),
            shortcuts=list(features.get("shortcuts", [])),
            scopes=None if scopes is None else frozenset(scopes) - ungranted,
            events=None if events is None else frozenset(events),
            view=view,
        )

    def is_subscribed_to(self, subscription: str) -> bool:
        return self.events is None or subscription in self.events


TEAMS = (Team(HOME_TEAM, "Rackwise Cloud", "rackwise"), Team(ACME_TEAM, "Acme AI", "acme-ai"), Team("T0GLOBEX", "Globex", "globex"))


# fmt: off
def create_users() -> Iterable[User]:
    yield User("U0OLGA",   "olga",    "Olga Marin",   "on-call")
    yield User("U0PRIYA",  "priya",   "Priya Nair",   "approver")
    yield User("U0ANTON",  "anton",   "Anton Weber",  "approver")
    yield User("U0DMITRI", "dmitri",  "Dmitri Sokol", "second on-call")
    yield User("U0CARLA",  "carla",   "Carla Reyes",  "customer, Acme AI", team_id=ACME_TEAM)
    yield User("U0STRANGE", "stan",   "Stan Grey",    "stranger, Globex",  team_id="T0GLOBEX")
    yield User("U0GUEST",  "gus",     "Gus Contractor", "guest", is_restricted=True)
    yield User("U0LEFT",   "lena",    "Lena Gone",    "left the company", deleted=True)
    yield User(BOT_USER, "rackmedic", "RackMedic", "app", is_bot=True)
# fmt: on


def create_groups() -> Iterable[UserGroup]:
    yield UserGroup("S0GPUAPPR", "gpu-approvers", "GPU approvers", ["U0PRIYA", "U0ANTON"])
