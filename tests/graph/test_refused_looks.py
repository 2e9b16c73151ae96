"""A host with refused checks breaks no contract and is not hidden behind other hosts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import pytest

from deploy.sandbox.cluster.access.case_run import build_case_run
from graph.incident.conclude import MAX_UNOBSERVED_CHECKS, select_unobserved_checks
from graph.incident.reasoning_check import load_reasoning, verify_stored_reasoning
from graph.state import UnobservedCheck
from tests.support.talk import Talk, case_of
from tools.fact import Status, build_unobserved_fact
from tools.fleet.answers import AnswerCallback, CheckAnswer, CheckRequest, FleetAnswers
from tools.fleet.fleet import Fleet

pytestmark = pytest.mark.slow

REFUSED, TIMED_OUT, DENIED = "Connection refused", "no answer within 10 s", "Permission denied (publickey)"


@dataclass
class PartlyDark:
    """A fleet whose `dark` hosts refuse checks for one of `reasons`, except those in `answering`."""

    fleet: Fleet
    dark: frozenset[str]
    reasons: tuple[str, ...]
    answering: frozenset[str] = frozenset()
    clock: str = "virtual"

    def __post_init__(self) -> None:
        self.checks = self.fleet.checks

    def invalidate_before(self, hosts: Iterable[str], since: datetime) -> None:
        self.fleet.invalidate_before(hosts, since)

    async def run_checks(
        self, incident: str, asks: Sequence[CheckRequest], seen: AnswerCallback | None = None, *, fresh: bool = False
    ) -> FleetAnswers:
        refused = [ask for ask in asks if ask.host in self.dark and ask.check not in self.answering]
        wave = await self.fleet.run_checks(incident, [ask for ask in asks if ask not in refused], seen, fresh=fresh)
        return replace(wave, answers=(*wave.answers, *map(self._refusal, refused)))

    def _refusal(self, ask: CheckRequest) -> CheckAnswer:
        why = self.reasons[sorted(self.checks).index(ask.check) % len(self.reasons)]
        return CheckAnswer(ask.host, ask.check, (build_unobserved_fact(ask.check, Status.TIMEOUT, why, ask.host),), 1.0, why)


def partly_dark(*hosts: str, reasons: tuple[str, ...], answering: frozenset[str] = frozenset()) -> Talk:
    talk = Talk.over(build_case_run(case_of(), controller="slurm-controller"))
    fleet = PartlyDark(talk.ports.fleet, frozenset(hosts), reasons, answering)
    talk.ports = replace(talk.ports, fleet=fleet)  # type: ignore[arg-type]  # the part of Fleet that is used
    return talk


# each names causes decided by checks late in the alphabet: time, store, sysd, procs
TICKETS = (
    "is anything wrong with the clock on gpu-003 and gpu-004? x509 certificate not yet valid",
    "stale file handle on /mnt, storage hangs on gpu-003 and gpu-004",
    "zombie processes and sssd logins fail on gpu-003 and gpu-004",
    "gpu-003 and gpu-004: systemd service slurmd is dead",
)


@pytest.mark.parametrize("ticket", TICKETS)
@pytest.mark.parametrize(
    ("reasons", "answering"),
    [
        ((REFUSED,), frozenset()),
        ((REFUSED, TIMED_OUT), frozenset()),
        ((REFUSED, TIMED_OUT, DENIED), frozenset()),
        ((REFUSED,), frozenset({"base"})),
        ((REFUSED, TIMED_OUT), frozenset({"base", "smi"})),
    ],
)
async def test_refused_looks_break_no_contract(ticket: str, reasons: tuple[str, ...], answering: frozenset[str]) -> None:
    talk = partly_dark("gpu-004", reasons=reasons, answering=answering)
    report = await talk.reports(ticket)
    assert report.broken == ()
    assert {row.host for row in report.could_not_look} >= {"gpu-004"}
    graph = await load_reasoning((await talk.rows()).stored, talk.ports.evidence)
    assert graph is not None
    assert (await verify_stored_reasoning(graph, talk.ports)).broken == ()


async def test_a_host_that_refuses_every_look_is_one_row_with_its_most_frequent_reasons() -> None:
    report = await partly_dark("gpu-004", reasons=(REFUSED, TIMED_OUT, DENIED)).reports("gpu-004 is odd, recheck gpu-[003-004]")
    (row,) = [row for row in report.could_not_look if row.host == "gpu-004"]
    assert row.check == "all"
    assert row.why.count(";") == 1


async def test_several_hosts_that_refuse_some_looks_are_all_named() -> None:
    hosts = ("gpu-001", "gpu-002", "gpu-003", "gpu-004")
    report = await partly_dark(*hosts, reasons=(REFUSED, TIMED_OUT), answering=frozenset({"base"})).reports("clock skew on gpu-[001-004]")
    assert report.broken == ()
    assert {row.host for row in report.could_not_look} >= set(hosts)


def test_the_cut_keeps_a_row_of_each_host_and_the_order() -> None:
    rows = [UnobservedCheck(host=f"n{host}", check=f"c{check:02}", why="no") for host in range(4) for check in range(30)]
    kept = select_unobserved_checks(rows)
    assert len(kept) == MAX_UNOBSERVED_CHECKS
    assert {row.host for row in kept} == {"n0", "n1", "n2", "n3"}
    assert list(kept) == sorted(kept, key=lambda row: (row.host, row.check))
    assert select_unobserved_checks(rows[:3]) == tuple(rows[:3])
