"""Over what simulated clusters print, taking secrets out costs no evidence: facts are the same before and after."""

from collections.abc import Iterator

from deploy.sandbox.cluster.cases.reader import parse_case
from deploy.sandbox.cluster.doors.cluster import Cluster
from kb.redact import redact
from tests.bench.generate import cases
from tests.bench.stand import world_seed
from tools.checks import CHECKS

MOST = 0.005
EVERY = 9
"""Of the easy cases, which hold every fault once, each so-many-th."""


def outputs() -> Iterator[tuple[str, str]]:
    """(check, what one of its commands printed on the first machine)."""
    for raw in list(cases("easy", 1))[::EVERY]:
        case = parse_case(dict(raw), str(raw["id"]))
        cluster = Cluster.from_case(case, world_seed(case, 0))
        for check in CHECKS.values():
            for command in check.commands if not check.exclusive else ():
                text = cluster.answer(case.nodes[0], command.argv).stdout.decode("utf-8", "replace")
                if text.strip():
                    yield check.id, text


def test_facts_are_the_same_with_and_without_secrets() -> None:
    before = after = 0
    for check, text in outputs():
        raw, clean = (
            {(fact.key, fact.device, str(fact.value), fact.status) for fact in CHECKS[check].read(said)} for said in (text, redact(text))
        )
        before, after = before + len(raw), after + len(raw ^ clean)
    assert before > 2000
    assert after <= MOST * before
