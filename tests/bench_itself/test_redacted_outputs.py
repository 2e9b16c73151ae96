"""Redaction loses no evidence: facts of simulated outputs are the same before and after."""

from collections.abc import Iterator

from deploy.sandbox.cluster.access.cluster import Cluster
from deploy.sandbox.cluster.cases.reader import parse_case
from tests.bench.case_files.generate import cases
from tests.bench.run.setup import world_seed
from tests.support.redacted import MOST, facts_that_differ
from tools.checks import CHECKS

EVERY = 9  # stride through the easy cases, which contain every fault once


def outputs() -> Iterator[tuple[str, str]]:
    """Yield (check, output of one of its commands on the first machine)."""
    for raw in list(cases("easy", 1))[::EVERY]:
        case = parse_case(dict(raw), str(raw["id"]))
        cluster = Cluster.from_case(case, world_seed(case, 0))
        for check in CHECKS.values():
            for command in check.commands if not check.exclusive else ():
                text = cluster.answer(case.nodes[0], command.argv).stdout.decode("utf-8", "replace")
                if text.strip():
                    yield check.id, text


def test_facts_are_the_same_with_and_without_secrets() -> None:
    before, after = facts_that_differ(outputs())
    assert before > 2000
    assert after <= MOST * before
