"""Read the environment and a file into one frozen Settings. No other module reads the environment."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from kb.yaml_files import load_plain

ENV_PREFIX = "RACKMEDIC_"
MIN_KEY_BYTES = 32  # Of a ledger key.


INBOUND_SETTINGS = ("slack_signing_secret", "intake_keys", "alerts")  # Each of these makes others send to `http_port`.
# Old name → new name. An old name is refused, and the message gives the new one.
RENAMED_SETTINGS: Mapping[str, str] = {
    "accept_forgetful_ledger": "allow_non_durable_ledger",
    "brake_window": "breaker_host_ratio",
    "closed_days": "closed_retention_days",
    "intake_host": "http_host",
    "intake_port": "http_port",
    "reproof_hours": "recheck_after_fix_hours",
}
# Removed setting → advice. Each is refused by name.
REMOVED_SETTINGS: Mapping[str, str] = {
    "answers_per_thread": "remove it: a thread gets up to 60 answers in five minutes",
    "closed_mb": "remove it: closed incidents may take 512 megabytes of Redis",
    "embeddings_seconds": "remove it: a request for embeddings may take 10 seconds",
    "model_samples": "remove it: the model is asked once",
    "notice_seconds": "remove it: a look that takes longer than 60 seconds ends with a message of its own",
    "pane_streams": "remove it: an answer to a direct message is one message",
    "plan_blocks": "remove it: steps are drawn as plan blocks, and as lines where Slack refuses these",
    "ssh_handshakes": "remove it: at most 50 SSH connections are opened at once; RACKMEDIC_SSH_PER_BASTION limits those through one bastion",
}


class BadSettings(ValueError):
    """Settings that cannot be used: every problem at once, each with the setting's name and the mend."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class Settings(BaseModel):
    """Everything an operator can set. Each field's description is what `rackmedic serve --help` and README show."""

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=(), validate_default=True)

    slack_bot_token: SecretStr = Field(SecretStr(""), description="bot token of the Slack app, begins with xoxb-")
    slack_app_token: SecretStr = Field(SecretStr(""), description="app-level token for Socket Mode, begins with xapp-")
    slack_signing_secret: SecretStr = Field(
        SecretStr(""),
        description="signing secret of the Slack app: events come over HTTP then, and no app token is needed (docs/slack-http.md)",
    )
    slack_api_url: str = Field("https://slack.com/api/", description="Slack's Web API; another address for a proxy or the sandbox")
    inventory: Path | None = Field(
        None, description="the fleet: YAML with groups, hosts and channels, or a source: slurm: kubernetes: ansible:FILE"
    )
    data_dir: Path = Field(Path("~/.local/share/rackmedic"), description="evidence, and Redis' files when RackMedic starts its own")
    redis_url: str = Field("", description="redis://… or rediss://…; empty starts a private redis-server, or keeps state in memory")
    qdrant_url: str = Field("", description="Qdrant server; empty keeps the index in memory, rebuilt at start")
    kb_dir: Path | None = Field(None, description="a site's own taxonomy/, checks/, rules/, incidents/, pages/ and sku/ files")
    check_programs: tuple[str, ...] = Field(
        (),
        description="folders on the nodes, separated by commas, of a site's own programs: its checks may run what lies below, by its whole path",
    )
    model_url: str = Field("", description="OpenAI-compatible endpoint; empty with a key means OpenAI, empty without one means no model")
    model_api_key: SecretStr = Field(SecretStr(""), description="key for the model endpoint")
    model_name: str = Field("gpt-4o-mini", description="model id at that endpoint")
    model_seconds: float = Field(30.0, gt=0, description="deadline for one model call, in seconds; one that thinks first needs more")
    model_context: int = Field(
        32_000, ge=4_000, description="tokens that the model's window holds, answer included; questions keep to it (docs/model.md)"
    )
    model_output_tokens: int = Field(
        4_000, ge=500, le=128_000, description="tokens of one answer, thinking included; at most a quarter of the window"
    )
    embeddings_url: str = Field(
        "", description="OpenAI-compatible endpoint for embeddings, so that past incidents are found by meaning too; empty: by words alone"
    )
    embeddings_key: SecretStr = Field(SecretStr(""), description="key for that endpoint")
    embeddings_model: str = Field("text-embedding-3-small", description="model id at that endpoint")
    model_calls_per_incident: int = Field(20, ge=0, description="model calls one incident may make")
    model_usd_per_incident: float = Field(0.10, ge=0, description="dollars one incident may cost at the price table")
    ssh_sessions: int = Field(
        5, ge=1, description="commands at once on one host; OpenSSH's MaxSessions is 10 and must leave room for as many that just ended"
    )
    look_seconds: float = Field(
        30.0,
        ge=1,
        description="seconds that one command of a check which only looks may take on a host; a mount or a tool that hangs costs no more",
    )
    silent_seconds: float = Field(
        5.0,
        gt=0,
        description="seconds after which a host that has said nothing is called silent, where all other hosts of the look have answered",
    )
    ssh_per_bastion: int = Field(10, ge=1, description="SSH connections being opened at once through one bastion")
    ledger_key: SecretStr = Field(
        SecretStr(""), description="secret that signs approvals and the audit log; empty makes one in the data folder"
    )
    ledger_old_keys: SecretStr = Field(
        SecretStr(""),
        description="keys that the ledger was signed with before, the newest first, separated by commas; kept for the audit log",
    )
    allow_non_durable_ledger: bool = Field(
        False, description="let remedies run on a Redis that may forget; for loopback hosts only, shown on every card"
    )
    brake_incident_hosts: int = Field(4, ge=1, description="brake: hosts that one incident may change within brake_incident_minutes")
    brake_incident_minutes: float = Field(
        60.0, gt=0, description="brake: minutes after which a changed host no longer counts for its incident"
    )
    brake_at_once: float = Field(
        0.05, gt=0, le=1, description="brake: share of a group's hosts that may be under change at the same moment; at least one host"
    )
    breaker_host_ratio: float = Field(
        0.10,
        gt=0,
        le=1,
        description="brake: share of a group's hosts changed within brake_window_minutes, by all incidents together; at least three. "
        "One more trips the group's breaker until an approver resets it",
    )
    brake_window_minutes: float = Field(10.0, gt=0, description="brake: minutes of that window")
    recheck_after_fix_hours: float = Field(
        2.0, gt=0, description="hours after which a fix is proved again before its incident is called cured"
    )
    recheck_counters_seconds: float = Field(
        60.0,
        ge=0,
        le=3600,
        description="seconds until error counters are read a second time where a report says that trouble comes and goes and no cause was "
        "found; 0: never",
    )
    look_again_seconds: float = Field(
        300.0, ge=0, le=86_400, description="seconds until hosts are looked at once more, after a report that found no cause; 0: never"
    )
    evidence_days: float = Field(
        90.0, gt=0, description="days that raw outputs are kept; never less than the incident that cites them is open"
    )
    evidence_gb: float = Field(20.0, gt=0, description="gigabytes of raw outputs that are kept, compressed; past it the oldest go first")
    closed_retention_days: float = Field(30.0, gt=0, description="days that a closed incident stays in Redis; nothing open ever expires")
    lease_seconds: float = Field(30.0, ge=1, description="after how long another process takes over the incidents of one that died")
    approvers: tuple[str, ...] = Field(
        (), description="Slack user ids, separated by commas, who may approve beside the user groups that the inventory's channels name"
    )
    alert_bots: tuple[str, ...] = Field(
        (), description="Slack bot ids (B…), separated by commas, of alert sources whose messages open incidents; other bots open nothing"
    )
    customers: bool = Field(
        False, description="serve channels that the inventory binds to tenants; without it they are refused, as every unbound one"
    )
    policy: Path | None = Field(
        None, description="YAML file of who may do what and how much each customer may ask (docs/roles.md); empty: as built in"
    )
    provider_url: str = Field(
        "",
        description="your provider's intake, https://…/intake/YOU: tickets can be sent there after a click (docs/provider-link.md); empty: none",
    )
    provider_key: SecretStr = Field(
        SecretStr(""), description="key that signs what is sent there, begins with whsec_; the provider gives it to you"
    )
    provider_poll_seconds: float = Field(30.0, gt=0, description="seconds between two questions to the provider how far a ticket is")
    intake_keys: Path | None = Field(
        None,
        description="YAML file of the keys that sign the tickets of customers, a list of whsec_… for each tenant; empty: none are taken",
    )
    alerts: Path | None = Field(
        None,
        description="YAML file of who may send alerts, and which labels open incidents in which channel (docs/alerts.md); empty: none are taken",
    )
    http_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="port on which others send something here: customers' tickets, alerts, Slack's events (docs/inbound.md); 0: none",
    )
    http_host: str = Field("127.0.0.1", description="address for that port; put a proxy with TLS in front of it")
    trackers: Path | None = Field(
        None,
        description="YAML file of the trackers in which tickets may be opened after a click, with their keys (docs/trackers.md); empty: none",
    )
    tracker_poll_seconds: float = Field(
        60.0,
        gt=0,
        description="seconds between two looks at a ticket in a tracker in the hour after it changed; five times as long on that day, "
        "thirty times as long after it",
    )
    outbox_lease_seconds: float = Field(
        90.0,
        ge=1,
        description="after how many seconds another process takes over a ticket whose sender died, to the provider or to a tracker; "
        "one try with it may take five sixths of that",
    )
    health_port: int = Field(0, ge=0, le=65535, description="port for /healthz, /readyz and /metrics; 0 turns them off")
    health_host: str = Field(
        "127.0.0.1",
        description="address for that port; 0.0.0.0 where probes or a scraper come from outside, as in a container (docs/health.md)",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="least severe log line written")
    log_format: Literal["console", "json"] = Field("console", description="log lines for people or for machines")
    workers: int = Field(1, ge=0, le=64, description="processes that `serve` starts to diagnose and repair; 0: it does that itself")

    @property
    def used_inbound_settings(self) -> list[str]:
        """The inbound settings in use, by variable name."""
        return [f"{ENV_PREFIX}{name.upper()}" for name in INBOUND_SETTINGS if getattr(self, name)]

    @property
    def evidence_dir(self) -> Path:
        return self.data_dir / "evidence"

    @field_validator("data_dir", "inventory", "kb_dir", "intake_keys", "alerts", "policy", "trackers", mode="after")
    @classmethod
    def _expand_home(cls, value: Path | None) -> Path | None:
        return value.expanduser() if value else None

    @field_validator("slack_bot_token", "slack_app_token", mode="after")
    @classmethod
    def _check_slack_token(cls, value: SecretStr, info: Any) -> SecretStr:
        shape = {"slack_bot_token": "xoxb-", "slack_app_token": "xapp-"}[info.field_name]
        if value.get_secret_value() and not value.get_secret_value().startswith(shape):
            raise ValueError(f"must begin with {shape}; copy it from the app's page at api.slack.com/apps")
        return value

    @field_validator("approvers", "alert_bots", "check_programs", mode="before")
    @classmethod
    def _split_ids(cls, value: Any) -> Any:
        return tuple(word.strip() for word in value.split(",") if word.strip()) if isinstance(value, str) else value

    @field_validator("ledger_key", mode="after")
    @classmethod
    def _check_key_length(cls, value: SecretStr) -> SecretStr:
        if 0 < len(value.get_secret_value().encode()) < MIN_KEY_BYTES:
            raise ValueError(f"must have at least {MIN_KEY_BYTES} bytes; make one with `openssl rand -hex 32`")
        return value

    @field_validator("ledger_old_keys", mode="after")
    @classmethod
    def _check_old_key_lengths(cls, value: SecretStr) -> SecretStr:
        if any(0 < len(word.strip().encode()) < MIN_KEY_BYTES for word in value.get_secret_value().split(",")):
            raise ValueError(f"each must have at least {MIN_KEY_BYTES} bytes, as any key of the ledger has")
        return value

    @field_validator("redis_url", "qdrant_url", "model_url", "embeddings_url", "slack_api_url", mode="after")
    @classmethod
    def _check_url(cls, value: str, info: Any) -> str:
        schemes = ("redis://", "rediss://", "unix://") if info.field_name == "redis_url" else ("http://", "https://")
        if value and not value.startswith(schemes):
            raise ValueError(f"must begin with {' or '.join(schemes)}")
        return value

    @field_validator("provider_url", mode="after")
    @classmethod
    def _check_provider_url(cls, value: str) -> str:
        parts = urlsplit(value)
        if value and parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "localhost", "::1")):
            raise ValueError("must begin with https:// (http:// only on this machine itself)")
        return value

    @model_validator(mode="after")
    def _check_provider_pair(self) -> "Settings":
        if bool(self.provider_url) != bool(self.provider_key.get_secret_value()):
            raise ValueError(f"PROVIDER_URL: it goes with {ENV_PREFIX}PROVIDER_KEY; set both, or neither")
        return self

    @model_validator(mode="after")
    def _check_http_port(self) -> "Settings":
        if self.used_inbound_settings and not self.http_port:
            raise ValueError(f"HTTP_PORT: {' and '.join(self.used_inbound_settings)} need a port to listen on; set it, or unset them")
        if self.http_port and not self.used_inbound_settings:
            setting_names = ", ".join(ENV_PREFIX + name.upper() for name in INBOUND_SETTINGS)
            raise ValueError(
                f"HTTP_PORT: nothing listens there; set one of {setting_names}, or unset it (trackers are polled and need no port)"
            )
        return self

    @model_validator(mode="after")
    def _check_kb_dir(self) -> "Settings":
        if self.kb_dir and not self.kb_dir.is_dir():
            raise ValueError(f"KB_DIR: {self.kb_dir} is no folder; create it or unset {ENV_PREFIX}KB_DIR")
        return self


def load_settings(file: Path | None = None, environ: Mapping[str, str] | None = None) -> Settings:
    """Load settings; the environment overrides the YAML file. Raise BadSettings with every problem."""
    environ = os.environ if environ is None else environ
    settings_file = file or (Path(environ[ENV_PREFIX + "CONFIG"]) if environ.get(ENV_PREFIX + "CONFIG") else None)
    values = _read_settings_file(settings_file) if settings_file else {}
    known_names = {ENV_PREFIX + name.upper() for name in Settings.model_fields} | {ENV_PREFIX + "CONFIG"}
    strays = [_describe_unknown_setting(name) for name in environ if name.startswith(ENV_PREFIX) and name not in known_names]
    environment_values = {
        k[len(ENV_PREFIX) :].lower(): v for k, v in environ.items() if k in known_names and v and not k.endswith("_CONFIG")
    }
    try:
        settings = Settings.model_validate(values | environment_values)
    except ValidationError as error:
        raise BadSettings(strays + [_format_problem(problem) for problem in error.errors()]) from error
    if strays:
        raise BadSettings(strays)
    return settings


def _read_settings_file(path: Path) -> dict[str, Any]:
    try:
        raw = load_plain(path.read_text()) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise BadSettings([f"{path}: cannot be read: {' '.join(str(error).split())}"]) from error
    if not isinstance(raw, dict):
        raise BadSettings([f"{path}: must be a mapping of settings"])
    return raw


def _describe_unknown_setting(name: str) -> str:
    setting = name.removeprefix(ENV_PREFIX).lower()
    if setting in REMOVED_SETTINGS:
        return f"{name}: is no longer a setting; {REMOVED_SETTINGS[setting]}"
    now = RENAMED_SETTINGS.get(setting)
    return f"{name}: is called {ENV_PREFIX}{now.upper()} now" if now else f"{name}: no such setting; see `rackmedic settings`"


def _format_problem(error: Any) -> str:
    if error["type"] == "extra_forbidden":
        return _describe_unknown_setting(f"{ENV_PREFIX}{'.'.join(map(str, error['loc'])).upper()}")
    location = ".".join(map(str, error["loc"]))
    message = error["msg"].removeprefix("Value error, ")
    return f"{ENV_PREFIX}{location.upper()}: {message}" if location else f"{ENV_PREFIX}{message}"


def list_missing_for_serve(settings: Settings) -> list[str]:
    """Return the problems that only `serve` has."""
    problems = []
    if not settings.slack_bot_token.get_secret_value():
        problems.append(f"{ENV_PREFIX}SLACK_BOT_TOKEN: not set; install the app from deploy/slack/manifest.yaml and copy its bot token")
    if not (settings.slack_app_token or settings.slack_signing_secret):
        problems.append(
            f"{ENV_PREFIX}SLACK_APP_TOKEN: not set; create an app-level token with connections:write, or set {ENV_PREFIX}SLACK_SIGNING_SECRET"
        )
    if settings.inventory is None:
        problems.append(f"{ENV_PREFIX}INVENTORY: not set; name the YAML file of your hosts and channels (see README)")
    return problems


def copy_environment() -> dict[str, str]:
    """Return a copy of the environment for a child process."""
    return dict(os.environ)
