"""Which incident owns a cause that several incidents find, by a shared name of its location. Pure.

The location: devices on a host, a place behind a switch or in a rack, host groups for the whole cluster, or a job. A
cause without a location is not shared.
"""

from collections.abc import Iterable, Mapping, Sequence

from graph.remediation.build import PlanContext, find_remediation_hosts
from graph.report import CauseOwnedElsewhere, Report
from graph.state import Hypothesis, Remediation

CauseLocation = tuple[str, str]  # (label, host) of one remediation; an empty host for a cause that people repair.


def map_cause_locations(causes: Iterable[Hypothesis], plan: PlanContext) -> dict[CauseLocation, tuple[str, ...]]:
    """Return location → names by which it is known."""
    hosts_by_location: dict[CauseLocation, tuple[str, ...]] = {}
    for cause in causes:
        hosts = [host for host in find_remediation_hosts(cause, plan) if host in plan.inventory.hosts]
        for host in hosts:
            hosts_by_location[cause.label, host] = _build_location_names(cause.label, host, cause.devices)
        if not hosts:
            hosts_by_location[cause.label, ""] = tuple(f"{cause.label} {place}" for place in _list_places(cause, plan))
    return hosts_by_location


def map_remediation_locations(remediations: Iterable[Remediation]) -> dict[CauseLocation, tuple[str, ...]]:
    """Return the locations of open remediations. Exclusive checks have none."""
    rows = [row for row in remediations if row.is_open and not any(step.remedy == "run_check" for step in row.rungs)]
    return {(row.label, row.target): _build_location_names(row.label, row.target, row.devices) for row in rows}


def find_owned_elsewhere(spots: Mapping[CauseLocation, Sequence[str]], holders: Mapping[str, str]) -> dict[CauseLocation, str]:
    """Return each location's owner: on a host it must own all names there, for manual repairs any."""
    owner_by_location: dict[CauseLocation, str] = {}
    for (label, host), names in spots.items():
        other_owners = [holders[name] for name in names if name in holders]
        if other_owners and (not host or len(other_owners) == len(names)):
            owner_by_location[label, host] = other_owners[0]
    return owner_by_location


def is_owned_elsewhere(report: Report) -> bool:
    """Return whether other incidents own every cause that this one found."""
    labels = {row.label for row in report.root_causes}
    return bool(report.shared) and {row.label for row in report.shared} >= labels


def list_causes_owned_elsewhere(
    causes: Iterable[Hypothesis], elsewhere: Mapping[CauseLocation, str], *, waits: bool = True
) -> tuple[CauseOwnedElsewhere, ...]:
    """Return rows per cause and owner. `waits`: this incident resumes on release."""
    rows: list[CauseOwnedElsewhere] = []
    for cause in causes:
        owner_by_host = {host: incident for (label, host), incident in elsewhere.items() if label == cause.label}
        for incident in dict.fromkeys(owner_by_host.values()):
            hosts = tuple(host for host, other in owner_by_host.items() if host and other == incident)
            rows.append(CauseOwnedElsewhere(label=cause.label, hosts=hosts, incident=incident, waits=waits))
    return tuple(rows)


def _build_location_names(label: str, host: str, devices: Iterable[str]) -> tuple[str, ...]:
    own = [name for name in devices if name.partition("/")[0] == host]
    return tuple(f"{label} {name}" for name in own or [host])


def _list_places(cause: Hypothesis, plan: PlanContext) -> tuple[str, ...]:
    leaf = plan.taxonomy.leaves.get(cause.label)
    if cause.devices or cause.hosts:
        return cause.devices or cause.hosts
    if leaf is not None and leaf.scope == "cluster":
        rows = (plan.inventory.hosts.get(evidence.host) for evidence in cause.evidence)
        return tuple(dict.fromkeys(f"group:{row.group}" for row in rows if row and row.group))
    return (f"job:{plan.job}",) if plan.job else ()
