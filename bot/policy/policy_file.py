"""The site's policy file (setting `policy`). Read once at start and refused whole, with every problem."""

from pathlib import Path

from bot.policy.approvals import ApproverTable, OnCallSource
from bot.policy.quotas import Quota, Quotas
from bot.policy.roles import NamedPeople, RoleTable
from kb.schema import StrictModel
from kb.yaml_files import Problems, read_document, validate_document
from tools.inventory.inventory import Inventory


class BadPolicy(ValueError):
    """A file that is refused; `problems` are `file:line: reason`, all of them."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class SitePolicy(StrictModel):
    """What a site says of people. Without a file everything is as it stands here."""

    shares: Quotas = Quotas()
    roles: RoleTable = RoleTable()
    approvers: ApproverTable = ApproverTable()


def load_policy(path: Path, inventory: Inventory | None = None) -> SitePolicy:
    """Load the policy; its names must be in `inventory`, if given. Raise BadPolicy."""
    problems = Problems()
    document = read_document(path, problems)
    policy = validate_document(document, SitePolicy, problems) if document else None
    if document and policy and inventory:
        for tenant in sorted(set(policy.shares.tenants) - list_tenants(inventory)):
            problems.add(
                document.find_position("shares", "tenants", tenant), f"no host and no channel of the inventory is of a tenant {tenant!r}"
            )
    if document and policy:
        for act, problem in policy.roles.list_problems():
            problems.add(document.find_position("roles", "only", act), problem)
        for position, problem in policy.approvers.list_problems(inventory.groups if inventory else None):
            problems.add(document.find_position("approvers", *position), problem)
    if policy is None or problems.found:
        raise BadPolicy(tuple(problems.found))
    return policy


def list_tenants(inventory: Inventory) -> frozenset[str]:
    rows = (*(host.tenant for host in inventory.hosts.values()), *(row.tenant for row in inventory.channels))
    return frozenset(name for name in rows if name)


def format_policy(policy: SitePolicy) -> tuple[str, ...]:
    """Return the policy as text, one line per subject."""
    rows = [("every customer", policy.shares.every), *sorted(policy.shares.tenants.items())]
    return (*(_format_quota(name, share) for name, share in rows), *_format_roles(policy.roles), *_format_approvers(policy.approvers))


def _format_approvers(table: ApproverTable) -> tuple[str, ...]:
    if table == ApproverTable():
        return ()
    sets = [
        f"set {name}: {', '.join(filter(None, [_format_people(row), *(f'on call by {one}' for one in row.on_call)]))}"
        for name, row in table.sets.items()
    ]
    sources = [f"on call by {name}: {_format_on_call_source(source)}" for name, source in table.on_call.items()]
    rules = [
        f"{', '.join(rule.risks) or 'everything'} on {', '.join(rule.groups) or 'all hosts'}: {' and '.join(rule.sets)} decide"
        for rule in table.rules
    ]
    return (*sets, *sources, *rules)


def _format_on_call_source(source: OnCallSource) -> str:
    return f"the user group {source.user_group}" if source.user_group else str(source.file or "a webhook")


def _format_roles(table: RoleTable) -> tuple[str, ...]:
    role_texts = [f"{role.replace('_', ' ')}s: {_format_people(people)}" for role, people in table.named_people if people]
    only = [f"only {', '.join(sorted(table.get_roles(act)))} may: {act}" for act in table.only]
    return (*role_texts, *only)


def _format_people(named: NamedPeople) -> str:
    return ", ".join([*named.users, *(f"the user group {group}" for group in named.groups)])


def _format_quota(name: str, quota: Quota) -> str:
    turns = "" if quota.turns == 1 else f", {quota.turns} turns to one of others"
    return f"{name}: {quota.incidents} incidents at once, {quota.mentions_per_hour} mentions an hour{turns}"
