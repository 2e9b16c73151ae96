"""Hosts, their connections, and the Slack channels about them. A host outside the inventory is never contacted."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from kb.schema import Loc, iter_complaints
from kb.yaml_files import Document, Problems, read_document
from tools.checks.check_types import SLOT_PATTERNS, URL_PATTERN
from tools.inventory.host_names import ALIAS_PATTERN, HostAlias, ScheduledHost, find_alias_problems, find_scheduling_problems
from tools.inventory.host_ranges import BadRange, expand_host_range
from tools.inventory.name_suggestions import find_suggestions, format_unknown_names

Scheduler = Literal["slurm", "kubernetes", "none"]


class BadInventory(ValueError):
    """The inventory cannot be used.

    `problems` holds every fault found. Each names its field and the remedy, and its line if it was read from a file.
    """

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.source = source
        self.problems = tuple(problems)


class HostSettings(BaseModel):
    """How to reach a host. Set under `defaults`, narrowed by group, then by host."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    user: str | None = None
    port: int | None = Field(default=None, ge=1, le=65535)
    key: str | None = None
    certificate: str | None = None
    known_hosts: str | None = None
    jump: str | None = None  # bastion as `[user@]host[:port]`; verified with the same known_hosts
    kit: bool | None = None
    job_logs: str | None = None
    nccl_tests: str | None = None
    gpu_burn: str | None = None
    leaf: str | None = None  # leaf switch, if known: tells a slow switch from a slow node
    rack: str | None = None  # if known; hosts of a rack share cooling and power
    launcher: Literal["mpi", "srun", "torchrun"] | None = None  # starts tests over several hosts
    sku: str | None = None
    object_store: str | None = None  # URL of the jobs' object store; only headers are requested
    tracker: str | None = None  # URL of the jobs' experiment tracker; only headers are requested
    # inventory host that runs the scheduler's commands; without it nothing is drained, evicted or cancelled
    controller: str | None = None
    scheduler: Scheduler | None = None  # Slurm by default; `none` overrides `defaults` for unscheduled hosts

    @field_validator("job_logs", "nccl_tests", "gpu_burn")
    @classmethod
    def _validate_path(cls, value: str | None) -> str | None:
        if value is not None and (not re.fullmatch(SLOT_PATTERNS["job_logs"], value) or ".." in value):
            raise ValueError("must be an absolute path of letters, digits, '.', '_', '-' and '/'")
        return value

    @field_validator("object_store", "tracker")
    @classmethod
    def _validate_address(cls, value: str | None) -> str | None:
        if value is not None and (not re.fullmatch(URL_PATTERN, value) or ".." in value):
            raise ValueError("must be an address as https://host:port/path, without a name, a password or a query")
        return value

    def merge_over(self, under: "HostSettings") -> "HostSettings":
        return HostSettings(**{**under.model_dump(), **self.model_dump(exclude_none=True)})


class HostRow(HostSettings):
    """One host's own settings."""

    address: str | None = None
    host_key_alias: str | None = None
    node: str | None = None  # the scheduler's name for it, if different
    # the tenant's name for it, shown to the tenant and also understood there
    alias: str | None = Field(default=None, pattern=ALIAS_PATTERN)


class GroupRow(HostSettings):
    """A group: a host range and what its hosts share."""

    hosts: str
    tenant: str | None = None


class ChannelRow(BaseModel):
    """A Slack channel bound to the operators, or to a tenant together with the operators' channel of its internal threads."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    channel: str
    name: str = ""
    kind: Literal["operators", "tenant"] = "operators"
    groups: tuple[str, ...] = ()
    tenant: str = ""
    internal: str = ""
    approvers: str = ""  # Slack user-group id that approval cards mention
    language: str = Field(default="en", pattern=r"^[a-z]{2}$")  # of answers to the tenant
    mention_only: bool = False  # answer mentions only, for channels with much unrelated talk


class _InventoryFile(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    defaults: HostSettings = HostSettings()
    groups: dict[str, GroupRow]
    hosts: dict[str, HostRow] = {}
    channels: tuple[ChannelRow, ...] = ()
    slurm: tuple[str, ...] = ()


class Host(BaseModel):
    """One host, everything resolved."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    address: str
    port: int = 22
    user: str = "rackmedic"
    key: str = ""
    certificate: str = ""
    known_hosts: str = ""
    host_key_alias: str = ""
    jump: str = ""
    kit: bool = False
    job_logs: str = "/var/log/jobs"
    nccl_tests: str = "/usr/local/nccl-tests/build"
    gpu_burn: str = "/opt/gpu-burn"
    object_store: str = ""
    tracker: str = ""
    leaf: str = ""
    rack: str = ""
    launcher: Literal["mpi", "srun", "torchrun"] = "mpi"
    sku: str = ""
    controller: str = ""
    scheduler: Scheduler = "slurm"
    node: str = ""
    alias: str = ""
    group: str = ""
    tenant: str = ""

    @property
    def node_name(self) -> str:
        return self.node or self.name

    @property
    def slurm_name(self) -> str:
        return self.node or self.name.partition(".")[0]

    @property
    def name_for_tenant(self) -> str:
        return self.alias or self.name


class Inventory(BaseModel):
    """The fleet as one frozen value."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    hosts: Mapping[str, Host]
    groups: Mapping[str, tuple[str, ...]]
    channels: tuple[ChannelRow, ...] = ()
    slurm: tuple[str, ...] = ()  # hosts where Slurm can be asked; "" is this machine

    def select_hosts(self, ranges: str) -> tuple[Host, ...]:
        """Return the hosts of a range or of group names. Raises BadRange for an unknown name."""
        selected: dict[str, None] = {}
        for name in expand_host_range(ranges):
            selected.update(dict.fromkeys(self.groups.get(name, (name,))))
        unknown = [name for name in selected if name not in self.hosts]
        if unknown:
            raise BadRange(format_unknown_names(find_suggestions(unknown, (*self.hosts, *self.groups))))
        return tuple(self.hosts[name] for name in selected)

    def list_domains(self, names: Iterable[str]) -> frozenset[str]:
        """Return the domains (`dc1.example`) in these hosts' names and addresses."""
        full_names = [text.lower() for name in names for text in (name, self.hosts[name].address)]
        domains = {text.partition(".")[2] for text in full_names}
        return frozenset(domain for domain in domains if domain and not domain.rpartition(".")[2].isdigit())

    @property
    def workers(self) -> tuple[str, ...]:
        """All hosts but controllers."""
        controllers = {host.controller for host in self.hosts.values()}
        return tuple(name for name in self.hosts if name not in controllers)

    def list_group_hosts(self, groups: Iterable[str]) -> tuple[str, ...]:
        """Return the hosts of these groups, or of all groups if none is given."""
        names = list(groups) or list(self.groups)
        return tuple(dict.fromkeys(host for group in names for host in self.groups.get(group, ())))


def read_inventory(path: Path) -> Document:
    """Read the file. Raises BadInventory if it is not YAML."""
    problems = Problems()
    document = read_document(path, problems)
    if document is None or problems.found:
        raise BadInventory(str(path), problems.found)
    return document


def parse_inventory(raw: Any, source: str = "inventory", document: Document | None = None) -> Inventory:
    """Build the inventory from plain data. With `document`, problems name its lines. Raises BadInventory with all problems."""

    def refuse(problems: Iterable[tuple[Loc, str]]) -> BadInventory:
        return BadInventory(source, [f"{document.find_position(*loc)}: {problem}" if document else problem for loc, problem in problems])

    try:
        file = _InventoryFile.model_validate(raw)
    except ValidationError as error:
        first = list(iter_complaints(error, _InventoryFile))
        raise refuse([*first, *_find_other_problems(raw, [complaint["loc"] for complaint in error.errors()])]) from error
    members, groups_of, problems = _resolve_groups(file)
    if problems:
        raise refuse(problems)
    hosts = {name: _resolve_host(name, groups, file) for name, groups in groups_of.items()}
    controllers = [host.controller for host in hosts.values() if host.controller and host.scheduler == "slurm"]
    return Inventory(
        hosts=hosts,
        groups={group: tuple(names) for group, names in members.items()},
        channels=file.channels,
        slurm=tuple(dict.fromkeys((*file.slurm, *controllers))),
    )


Problem = tuple[Loc, str]  # location of the field, and the message


def _resolve_groups(file: _InventoryFile) -> tuple[dict[str, list[str]], dict[str, list[str]], list[Problem]]:
    """Return hosts by group, groups by host, and problems across rows."""
    members, problems = _expand_groups(file)
    groups_of: dict[str, list[str]] = {}
    for group, names in members.items():
        for name in names:
            groups_of.setdefault(name, []).append(group)
    problems += [*_find_unknown_hosts(groups_of.keys(), file), *_find_channel_problems(file), *_find_tenant_problems(groups_of, file)]
    problems += find_scheduling_problems(_iter_scheduled_hosts(groups_of, file))
    problems += find_alias_problems(_iter_aliases(groups_of, file), groups_of)
    return members, groups_of, problems


def _find_other_problems(raw: Any, unreadable_fields: Sequence[Loc]) -> list[Problem]:
    """Return problems in the fields that can be read; nothing if the rest does not validate."""
    readable = deepcopy(raw)
    for loc in unreadable_fields:
        _remove_field(readable, loc)
    try:
        _, _, problems = _resolve_groups(_InventoryFile.model_validate(readable))
    except ValidationError:
        return []
    return [(loc, problem) for loc, problem in problems if not any(loc[: len(field)] == field[: len(loc)] for field in unreadable_fields)]


def _remove_field(node: Any, loc: Loc) -> None:
    for part in loc[:-1]:
        if isinstance(node, dict):
            node = node.get(part)
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            node = node[part]
        else:
            return
    if loc and isinstance(node, dict):
        node.pop(loc[-1], None)


def _expand_groups(file: _InventoryFile) -> tuple[dict[str, list[str]], list[Problem]]:
    groups: dict[str, list[str]] = {}
    problems: list[Problem] = []
    for name, group in file.groups.items():
        try:
            groups[name] = expand_host_range(group.hosts)
        except BadRange as error:
            groups[name] = []
            problems.append((("groups", name, "hosts"), f"groups.{name}.hosts: {error}"))
    return groups, problems


def _find_unknown_hosts(host_names: Collection[str], file: _InventoryFile) -> Iterator[Problem]:
    for name in file.hosts:
        if name not in host_names:
            yield ("hosts", name), f"hosts.{name}: is in no group"
    settings_by_location: dict[Loc, HostSettings] = {("defaults",): file.defaults}
    settings_by_location |= {("groups", name): group for name, group in file.groups.items()}
    for loc, settings in settings_by_location.items():
        if settings.controller and settings.controller not in host_names:
            yield (*loc, "controller"), f"{'.'.join(map(str, loc))}.controller: {settings.controller!r} is not a host of this inventory"
        if settings.controller and settings.scheduler == "none":
            yield (*loc, "scheduler"), f"{'.'.join(map(str, loc))}.scheduler: is none, and `controller:` names who is asked; leave one out"


def _iter_scheduled_hosts(groups_of: Mapping[str, Sequence[str]], file: _InventoryFile) -> Iterator[ScheduledHost]:
    """Yield the hosts as their schedulers know them; none if all hosts use Slurm under their own names."""
    all_settings = (file.defaults, *file.groups.values(), *file.hosts.values())
    names_scheduler = any(settings.scheduler for settings in all_settings)
    if names_scheduler or any(settings.node for settings in file.hosts.values()):
        hosts = (_resolve_host(name, groups, file) for name, groups in groups_of.items())
        yield from (ScheduledHost(h.name, h.group, h.scheduler, h.controller, h.node_name, bool(h.node)) for h in hosts)


def _iter_aliases(groups_of: Mapping[str, Sequence[str]], file: _InventoryFile) -> Iterator[HostAlias]:
    for name, settings in file.hosts.items():
        if settings.alias and name in groups_of:
            yield HostAlias(name, settings.alias, _find_tenant(groups_of[name], file))


def _find_tenant(groups: Iterable[str], file: _InventoryFile) -> str:
    return next((tenant for group in groups if (tenant := file.groups[group].tenant)), "")


def _find_channel_problems(file: _InventoryFile) -> Iterator[Problem]:
    for i, channel in enumerate(file.channels):
        for group in channel.groups:
            if group not in file.groups:
                yield ("channels", i, "groups"), f"channels.{i}.groups: there is no group {group!r}"
        if channel.kind == "tenant" and not channel.tenant:
            yield ("channels", i), f"channels.{i}.tenant: a tenant channel names its tenant"


def _find_tenant_problems(groups_of: Mapping[str, Sequence[str]], file: _InventoryFile) -> Iterator[Problem]:
    """Yield hosts of several tenants: one tenant's secrets would reach another."""
    for name, groups in groups_of.items():
        tenants = {tenant for group in groups if (tenant := file.groups[group].tenant)}
        if len(tenants) > 1:
            yield ("groups", groups[-1]), f"hosts.{name}: is in groups of several tenants ({', '.join(sorted(tenants))})"


def _resolve_host(name: str, groups: Sequence[str], file: _InventoryFile) -> Host:
    """Build a host. Its own settings override its groups', of which the later wins, and those the defaults."""
    own_settings, settings = file.hosts.get(name, HostRow()), file.defaults
    for layer in (*(file.groups[group] for group in groups), own_settings):
        settings = HostSettings(**layer.model_dump(include=set(HostSettings.model_fields))).merge_over(settings)
    if settings.scheduler == "none":
        settings = settings.model_copy(update={"controller": None})
    return Host(
        name=name,
        address=own_settings.address or name,
        host_key_alias=own_settings.host_key_alias or "",
        node=own_settings.node or "",
        alias=own_settings.alias or "",
        group=groups[-1],
        tenant=_find_tenant(groups, file),
        **settings.model_dump(exclude_none=True),
    )
