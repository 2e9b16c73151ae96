"""Find the incident that owns a cause, so that two incidents with the same cause do not both repair it.

Incidents compare the names of a cause's location: devices on a host, a place behind a switch or in a rack, host groups for
the whole cluster, or a job. A cause without a location has no owner.
"""

from collections.abc import Iterable, Mapping, Sequence

from graph.remediation.build import PlanContext, find_remediation_hosts
from graph.report import CauseOwnedElsewhere, Report
from graph.state import Hypothesis, Remediation

CauseLocation = tuple[str, str]  # (label, host) of one remediation; the host is empty for a cause that people repair


def map_cause_locations(causes: Iterable[Hypothesis], plan: PlanContext) -> dict[CauseLocation, tuple[str, ...]]:
    """Return the names of each cause's locations."""
    names_by_location: dict[CauseLocation, tuple[str, ...]] = {}
    for cause in causes:
        hosts = [host for host in find_remediation_hosts(cause, plan) if host in plan.inventory.hosts]
        for host in hosts:
            names_by_location[cause.label, host] = _build_location_names(cause.label, host, cause.devices)
        if not hosts:
            names_by_location[cause.label, ""] = tuple(f"{cause.label} {place}" for place in _list_places(cause, plan))
    return names_by_location


def map_remediation_locations(remediations: Iterable[Remediation]) -> dict[CauseLocation, tuple[str, ...]]:
    """Return the names of the locations that open remediations repair. An exclusive check repairs nothing."""
    names_by_location: dict[CauseLocation, tuple[str, ...]] = {}
    for remediation in remediations:
        runs_check = any(step.remedy == "run_check" for step in remediation.rungs)
        if remediation.is_open and not runs_check:
            names = _build_location_names(remediation.label, remediation.target, remediation.devices)
            names_by_location[remediation.label, remediation.target] = names
    return names_by_location


def find_owned_elsewhere(locations: Mapping[CauseLocation, Sequence[str]], holders: Mapping[str, str]) -> dict[CauseLocation, str]:
    """Return the incident that owns each location.

    On a host it must own every name of the location; for a manual repair one name is enough.
    """
    owner_by_location: dict[CauseLocation, str] = {}
    for (label, host), names in locations.items():
        other_owners = [holders[name] for name in names if name in holders]
        if other_owners and (not host or len(other_owners) == len(names)):
            owner_by_location[label, host] = other_owners[0]
    return owner_by_location


def is_owned_elsewhere(report: Report) -> bool:
    """Return whether other incidents own every cause that this one found."""
    labels = {cause.label for cause in report.root_causes}
    return bool(report.shared) and {owned_cause.label for owned_cause in report.shared} >= labels


def list_causes_owned_elsewhere(
    causes: Iterable[Hypothesis], elsewhere: Mapping[CauseLocation, str], *, waits: bool = True
) -> tuple[CauseOwnedElsewhere, ...]:
    """Return one entry per cause and owner. With `waits` this incident resumes when the owner releases the cause."""
    owned_causes: list[CauseOwnedElsewhere] = []
    for cause in causes:
        owner_by_host = {host: incident for (label, host), incident in elsewhere.items() if label == cause.label}
        for incident in dict.fromkeys(owner_by_host.values()):
            hosts = tuple(host for host, owner in owner_by_host.items() if host and owner == incident)
            owned_causes.append(CauseOwnedElsewhere(label=cause.label, hosts=hosts, incident=incident, waits=waits))
    return tuple(owned_causes)


def _build_location_names(label: str, host: str, devices: Iterable[str]) -> tuple[str, ...]:
    host_devices = [name for name in devices if name.partition("/")[0] == host]
    return tuple(f"{label} {name}" for name in host_devices or [host])


def _list_places(cause: Hypothesis, plan: PlanContext) -> tuple[str, ...]:
    if cause.devices or cause.hosts:
        return cause.devices or cause.hosts
    leaf = plan.taxonomy.leaves.get(cause.label)
    if leaf is not None and leaf.scope == "cluster":
        evidence_hosts = (plan.inventory.hosts.get(evidence.host) for evidence in cause.evidence)
        return tuple(dict.fromkeys(f"group:{host.group}" for host in evidence_hosts if host and host.group))
    return (f"job:{plan.job}",) if plan.job else ()
