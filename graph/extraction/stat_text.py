"""Uniform texts for confidence, coverage and duration. Pure."""

from collections.abc import Iterable

from graph.state import IncidentCosts
from tools.fact import Fact


def format_confidence_percent(confidence: float) -> str:
    """Return `93 %`, never below 1 or above 99."""
    return f"{max(1, min(99, round(confidence * 100)))} %"


def format_makespan(stats: IncidentCosts) -> str:
    """Return the checks' duration: `12 s`, `0.4 s`."""
    took = stats.makespan_seconds
    return f"{took:.0f} s" if took >= 1 else f"{took:.1f} s"


def format_coverage(stats: IncidentCosts) -> str:
    """Return `4 hosts looked at with 88 checks`; silent hosts do not count as looked at."""
    if not stats.hosts:
        return "no host looked at"
    if stats.silent >= stats.hosts:
        return f"{_format_hosts(stats.hosts)} asked, none answered" if stats.hosts > 1 else "1 host asked, and it did not answer"
    return f"{_format_answered_hosts(stats)} looked at with {_format_checks(stats)}"


def format_cost(stats: IncidentCosts) -> str:
    """Return `88 checks on 4 hosts in 12 s`; empty without checks."""
    return f"{_format_checks(stats)} on {_format_answered_hosts(stats)} in {format_makespan(stats)}" if stats.checks else ""


def format_hosts_and_makespan(stats: IncidentCosts) -> str:
    """Return `4 hosts in 12 s`; empty without checks."""
    return f"{_format_answered_hosts(stats)} in {format_makespan(stats)}" if stats.checks else ""


def count_unobserved_hosts(facts: Iterable[Fact]) -> int:
    """Return how many hosts were asked and answered nothing."""
    asked_hosts: set[str] = set()
    answering_hosts: set[str] = set()
    for fact in facts:
        if fact.host:
            asked_hosts.add(fact.host)
            if not fact.status.blind:
                answering_hosts.add(fact.host)
    return len(asked_hosts - answering_hosts)


def _format_answered_hosts(stats: IncidentCosts) -> str:
    return f"{stats.hosts - stats.silent} of {_format_hosts(stats.hosts)}" if stats.silent else _format_hosts(stats.hosts)


def _format_hosts(count: int) -> str:
    return f"{count} host{'s' * (count != 1)}"


def _format_checks(stats: IncidentCosts) -> str:
    return f"{stats.checks} check{'s' * (stats.checks != 1)}"
