"""Age of errors: one old event decides nothing and is reported as old; errors recurring over days are a chronic cause."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from deploy.sandbox.cluster.access.case_run import build_case_run
from graph.engine.assessment import Assessment, assess_facts
from graph.engine.fact_history import MAX_OLD_EVENTS_LOG_ODDS, MIN_RECURRING_COUNT, format_old_event
from graph.engine.reference_data import ReferenceData
from graph.extraction.time_window import parse_time_window
from graph.state import Attachment
from kb.taxonomy.loader import load_taxonomy
from tests.support.clock import T0
from tests.support.talk import Talk, case_of
from tools.checks import CHECKS
from tools.checks.kernel import parse_kernel_log
from tools.checks.kernel_merge import merge_kernel_logs
from tools.fact import Fact

TAXONOMY = load_taxonomy().decidable
HOST = "gpu-001"
LINES = {
    "xid": "NVRM: Xid (PCI:0000:5d:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "sxid": "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 30 LTSSM Fault Up",
    "ecc": "NVRM: Xid (PCI:0000:5d:00): 48, pid=4242, name=python3, DBE (double bit error) ECC Error",
    "cable": "mlx5_core 0000:18:00.0: Port module event: module 0, Cable unplugged",
    "flap": "\n".join(["ib0: Lost carrier"] * 3),
    "oom": "Out of memory: Killed process 4242 (python3) total-vm:1000kB, anon-rss:900kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB",
    "mce": "{1}[Hardware Error]: event severity: fatal",
    "aer": "pcieport 0000:00:01.0: AER: Uncorrected (Fatal) error received: 0000:5d:00.0",
    "nvme": "nvme nvme0: I/O 12 QID 3 timeout, aborting",
    "thermal": "CPU3: Core temperature above threshold, cpu clock throttled (total events = 3)",
}
ONE_OLD, ONE_NEW = (216.0,), (1.0,)
# hours before the report
RECURRING_OLD, RECURRING_UNTIL_NOW = (216.0, 160.0, 120.0, 72.0), (216.0, 150.0, 90.0, 40.0, 1.0)


def log(line: str, hours: tuple[float, ...], by: datetime = T0) -> str:
    return "".join(
        f"{by - timedelta(hours=hour):%Y-%m-%dT%H:%M:%S.000000+00:00} {HOST} kernel: {row}\n" for hour in hours for row in line.split("\n")
    )


def seen(line: str, hours: tuple[float, ...], host: str = HOST) -> list[Fact]:
    return [replace(fact.locate(host, time=T0), host=host) for fact in merge_kernel_logs(parse_kernel_log(log(line, hours)))]


def weighed(facts: list[Fact]) -> Assessment:
    return assess_facts(facts, ReferenceData(TAXONOMY, CHECKS), (HOST,), None, T0)


def likely(now: Assessment) -> dict[str, bool]:
    """Return the labels with posterior 0.5 or more and support, and whether each is proven."""
    return {row.label: row.proven for row in now.beliefs if row.posterior >= 0.5 and row.support}


@pytest.mark.parametrize("host", [HOST, ""])
@pytest.mark.parametrize("kind", LINES)
def test_one_old_event_decides_nothing_and_is_told_as_old(kind: str, host: str) -> None:
    now = weighed(seen(LINES[kind], ONE_OLD, host))
    assert not now.roots
    assert not likely(now)
    assert all(row.log_odds <= MAX_OLD_EVENTS_LOG_ODDS for row in now.beliefs if row.support)
    assert not now.abnormal_facts
    assert [format_old_event(fact, T0) for fact in now.old], "nothing tells of it"
    assert all(format_old_event(fact, T0).endswith(", 9 days ago, not since") for fact in now.old)


@pytest.mark.parametrize("host", [HOST, ""])
@pytest.mark.parametrize("kind", LINES)
@pytest.mark.parametrize("hours", [RECURRING_OLD, RECURRING_UNTIL_NOW])
def test_what_recurs_over_days_decides_like_a_new_event(kind: str, host: str, hours: tuple[float, ...]) -> None:
    new, recurring = weighed(seen(LINES[kind], ONE_NEW, host)), weighed(seen(LINES[kind], hours, host))
    assert likely(recurring).keys() == likely(new).keys()
    assert all(likely(recurring)[label] for label, proven in likely(new).items() if proven)
    assert not recurring.old
    first, last = T0 - timedelta(hours=hours[0]), T0 - timedelta(hours=hours[-1])
    series = f"({len(hours) * len(LINES[kind].split(chr(10)))} times, first {first:%Y-%m-%d %H:%M}, last {last:%Y-%m-%d %H:%M} UTC)"
    said = [match.says for row in recurring.beliefs for match in row.support if match.fact.key.startswith("kernel.")]
    assert said or any(series in line for line in recurring.why_unsure)
    assert all(says.endswith(series) for says in said)


@pytest.mark.parametrize("kind", LINES)
def test_one_new_event_is_as_it_was(kind: str) -> None:
    now = weighed(seen(LINES[kind], ONE_NEW))
    assert not now.old
    assert now.abnormal_facts or now.roots or likely(now)


@pytest.mark.parametrize(
    ("hours", "chronic"),
    [
        ((216.0, 192.0, 168.0), True),  # three events on three days
        ((49.0, 48.9, 1.0), True),
        ((216.0, 168.0), False),  # a coincidence
        ((216.0, 215.9, 215.8, 215.5, 210.0), False),  # one episode
        ((720.0, 696.0, 648.0), False),  # a month without events: repaired
    ],
)
def test_count_spread_and_last_seen_make_a_series(hours: tuple[float, ...], chronic: bool) -> None:
    now = weighed(seen(LINES["xid"], hours))
    assert bool(now.roots or likely(now)) is chronic
    assert bool(now.old) is not chronic


def test_what_was_repaired_since_begins_no_series() -> None:
    facts = [replace(fact, stale=True) for fact in seen(LINES["xid"], RECURRING_OLD)]
    now = weighed(facts)
    assert not now.roots
    assert not likely(now)


def test_events_without_a_time_are_as_new_as_the_look() -> None:
    text = "\n".join(f"[{n}00.000001] {LINES['xid']}" for n in range(1, MIN_RECURRING_COUNT))
    now = weighed([fact.locate(HOST, time=T0) for fact in merge_kernel_logs(parse_kernel_log(text))])
    assert likely(now) == likely(weighed(seen(LINES["xid"], ONE_NEW)))
    assert not now.old


def test_two_old_events_of_two_causes_are_both_told() -> None:
    now = weighed([*seen(LINES["xid"], ONE_OLD), *seen(LINES["nvme"], ONE_OLD)])
    assert len(now.old) == 2


async def pasted(hours: tuple[float, ...], words: str = "please look at this log", ahead: timedelta = timedelta()) -> str:
    """Return the outcome of a log attached on a healthy site; `ahead`: how far its clock is ahead of ours."""
    talk = Talk.over(build_case_run(case_of(nodes=("gpu-001", "gpu-002"))))
    by = talk.stage.clock.now() + ahead
    last = f"{by - timedelta(minutes=5):%Y-%m-%dT%H:%M:%S.000000+00:00} {HOST} kernel: eth0: Link is Up\n"
    report = await talk.reports(words, Attachment(name="kern.log", text=log(LINES["xid"], hours, by) + last))
    return " | ".join((report.outcome, report.likely.label if report.likely else "", *report.old))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hours", "words", "ahead", "outcome", "told"),
    [
        (ONE_OLD, "please look at this log", 0, "no_fault", "9 days ago, not since"),
        (ONE_OLD, "please look at this log", 20, "no_fault", "not since"),  # old only by the log's newest line
        (ONE_OLD, "a job failed 9 days ago, see this log", 0, "abstained", ""),  # the report names that time
        (ONE_NEW, "please look at this log", 0, "abstained", ""),
        (RECURRING_OLD, "please look at this log", 0, "abstained", ""),
    ],
)
async def test_an_attached_log_is_as_old_as_its_lines(hours: tuple[float, ...], words: str, ahead: int, outcome: str, told: str) -> None:
    said = await pasted(hours, words, timedelta(days=ahead))
    assert said.startswith(outcome)
    assert ("not since" in said) is bool(told)
    assert told in said


def test_what_the_kernel_says_once_at_boot_does_not_fade() -> None:
    line = "nvidia 0000:5d:00.0: BAR 1: no space for [mem size 0x2000000000 64bit pref]"
    now = weighed(seen(line, ONE_OLD))
    assert not now.old
    assert likely(now) == likely(weighed(seen(line, ONE_NEW)))
    assert likely(now)


@pytest.mark.parametrize(
    "text",
    [
        "job died, was fine for two days before that",
        "ran for 3 days, then it died",
        "training ran fine for 5 h",
        "it has been up for two days",
    ],
)
def test_how_long_all_was_well_is_no_beginning_of_the_trouble(text: str) -> None:
    assert parse_time_window(text, T0) == (None, None)


@pytest.mark.parametrize("text", ["it has been slow for two days", "hangs for 2 hours", "worked for a day, died 10 minutes ago"])
def test_how_long_it_is_wrong_is_one(text: str) -> None:
    assert parse_time_window(text, T0)[0] is not None
