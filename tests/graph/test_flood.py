"""Parsing and weighing hostile input takes linear time, bounds the facts, drops devices no host has, and reports what
was left out.
"""

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

import pytest

from graph.engine.assessment import assess_facts
from graph.engine.reference_data import ReferenceData
from graph.extraction.incident_scope import MAX_TEXT_FACTS, select_own_facts
from graph.extraction.pasted_text import MAX_LOG_CHARS, MAX_WHOLE_LINE_CHARS, bound_text, extract_pasted_facts
from graph.extraction.uploaded_files import format_file_read
from graph.extraction.uploaded_text import extract_text
from graph.report import FileReadResult
from kb.logs.kernel_log import MAX_SAME_EVENTS, list_kernel_events
from kb.taxonomy.expressions import find_possible_values
from kb.taxonomy.loader import load_taxonomy
from tests.graph.test_reading_is_linear import calls
from tests.support.clock import T0
from tools.checks import CHECKS
from tools.checks.check_types import MAX_DEVICES, MAX_FACTS, count_left_out
from tools.fact import Fact

pytestmark = pytest.mark.slow


KIB = 1 << 10
Line = Callable[[int], str]


def pair(n: int) -> str:
    return f"[{n}.5] NVRM: Xid (PCI:{n >> 13:04x}:{n >> 5 & 255:02x}:{n & 31:02x}.0): {n * 7919 % 172}, pid={n}, name=x"


def adapter(n: int) -> str:
    return f"[{n}.5] mlx5_core {n >> 13:04x}:{n >> 5 & 255:02x}:{n & 31:02x}.0: Port module event: module {n}, Cable unplugged"


def killed(n: int) -> str:
    return f"[{n}.5] Out of memory: Killed process {n} (p{n}) total-vm"


def rank(n: int) -> str:
    return f"[rank{n}]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {n} GiB. GPU {n % 8}"


def raised(n: int) -> str:
    return f'[rank{n}]: Traceback (most recent call last):\n[rank{n}]:   File "x.py", line {n}, in f\n[rank{n}]: ValueError: bad {n}'


def words(n: int) -> str:
    letters = "".join(chr(97 + n // 26**place % 26) for place in range(5))
    return f"{letters} failed to {letters[::-1]} within the time that {letters[2:]} gives"


def variable(n: int) -> str:
    return f"{n} NCCL_X{n}=v{n}"


def file(n: int) -> str:
    return f"==> /var/log/jobs/{n}/rank_{n}.log <==\nRuntimeError: CUDA error: an illegal memory access was encountered"


LINES = (pair, adapter, killed, rank, raised, words, variable, file)


def text_of(line: Line, count: int) -> str:
    return "\n".join(map(line, range(count)))


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.__name__)
def test_four_times_the_lines_are_at_most_some_five_times_the_work(line: Line) -> None:
    def read(count: int) -> None:
        extract_text("log", "", text_of(line, count), T0, CHECKS)

    read(50)
    small, large = calls(partial(read, 250)), calls(partial(read, 1000))
    assert large <= 5 * small + 20_000


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.__name__)
def test_no_text_makes_more_facts_than_can_be_weighed_and_it_says_so(line: Line) -> None:
    many = MAX_FACTS + 500
    found = extract_pasted_facts(text_of(line, many), CHECKS)
    assert len(found.facts) <= MAX_FACTS
    if line is not words:
        assert found.left_out >= 500, "what is not kept is counted"


def test_a_host_that_names_more_devices_than_any_has_is_told_as_not_looked_at_whole() -> None:
    facts = CHECKS["dmesg"].parse_output(text_of(adapter, 3 * MAX_DEVICES))
    assert len([fact for fact in facts if fact.key == "kernel.mlx5"]) == MAX_DEVICES
    (said,) = [fact for fact in facts if fact.status.blind]
    assert said.line == f"could not look at all: {2 * MAX_DEVICES:,} more things that it says were left out"
    assert count_left_out(facts) == 2 * MAX_DEVICES


def test_a_log_of_any_rank_keeps_the_error_that_came_first() -> None:
    late = "[rank7]: 2026-05-20 01:00:00 RuntimeError: CUDA error: an illegal memory access was encountered"
    lines = [f"[rank{n}]: 2026-05-20 03:00:00 RuntimeError: CUDA error: device-side assert triggered" for n in range(4000)]
    facts = CHECKS["joblog"].parse_output("\n".join([*lines, late]))
    assert [fact.value for fact in facts if fact.attrs.get("first")] == ["cuda_illegal_access"]


def test_an_event_without_end_is_kept_as_often_as_it_tells_something_and_counted() -> None:
    lines = [f"[{n}.5] mlx5_core 0000:9c:00.0 mlx5_6: Link down" for n in range(3 * MAX_SAME_EVENTS)]
    events = list_kernel_events("\n".join(lines))
    assert len(events) == MAX_SAME_EVENTS
    assert sum(int(event.attrs.get("count", 1)) for event in events) == 3 * MAX_SAME_EVENTS
    (fact,) = [fact for fact in CHECKS["dmesg"].parse_output("\n".join(lines)) if fact.key == "kernel.mlx5"]
    assert fact.attrs["count"] == 3 * MAX_SAME_EVENTS


def test_a_monstrous_line_does_not_hide_the_traceback_behind_it() -> None:
    job = "\n".join(["step 1 loss 2.0"] * 30)
    text = f"{job}\n{'x' * (5 << 20)}\n{raised(3)}\n"
    errors = [fact for fact in extract_pasted_facts(text, CHECKS).facts if fact.key == "job.error"]
    assert [(fact.value, fact.attrs["detail"]) for fact in errors] == [("python_exception", "bad 3")]


def test_of_a_long_log_its_beginning_and_its_end_are_read_in_whole_lines() -> None:
    lines = [f"line {n} of many" for n in range(400_000)]
    text = "\n".join(lines)
    assert len(text) > MAX_LOG_CHARS
    read = bound_text(text).split("\n")
    assert read[0] == lines[0]
    assert read[-1] == lines[-1]
    assert set(read) <= {*lines, ""}
    assert MAX_LOG_CHARS - 100 <= len(bound_text(text)) <= MAX_LOG_CHARS
    assert bound_text("short") == "short"
    assert len(bound_text("x" * (30 << 20))) < MAX_WHOLE_LINE_CHARS


def test_reading_needs_memory_for_what_it_keeps_and_not_for_what_it_counts() -> None:
    """Every line is an event of another device."""
    tracemalloc.start()
    list_kernel_events(text_of(pair, 12_000))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 24 << 20


# --- weighing


def lens() -> ReferenceData:
    return ReferenceData(load_taxonomy(), CHECKS)


def xids(count: int, host: str = "") -> list[Fact]:
    return [fact.locate(host, time=T0) for fact in extract_pasted_facts(text_of(pair, count), CHECKS).facts]


def test_weighing_grows_no_faster_than_the_facts() -> None:
    own = lens()
    assess_facts(xids(50), own, ("n1",))
    for host in ("", "n1"):
        few, many = xids(250, host), xids(1000, host)
        assert calls(partial(assess_facts, many, own, ("n1",))) <= 5 * calls(partial(assess_facts, few, own, ("n1",)))


def test_weighing_grows_no_faster_than_the_hosts() -> None:
    own = lens()
    one = xids(30, "n")

    def weigh(hosts: int) -> None:
        names = tuple(f"n{n}" for n in range(hosts))
        assess_facts([replace(fact, host=name) for name in names for fact in one], own, names)

    weigh(2)
    assert calls(partial(weigh, 80)) <= 5 * calls(partial(weigh, 20))


def test_a_clue_is_looked_up_by_the_values_that_it_may_have() -> None:
    assert find_possible_values("value == 79") == frozenset[int | str | bool]({79})
    assert find_possible_values("value in ['slow', 'failed'] && (attrs.x > 1 || stale)") == frozenset[int | str | bool]({"slow", "failed"})
    assert find_possible_values("value == true && attrs.says == 'a || b'") == frozenset[int | str | bool]({True})
    for any_value in (
        "value == 'a' || value == 'b'",
        "value == 1 ? stale : true",
        "value > 3",
        "attrs.x == 1 && value == 2",
        "value == expected",
    ):
        assert find_possible_values(any_value) is None, any_value


def test_a_clue_holds_for_no_value_but_those() -> None:
    """Every clue of the taxonomy against every fact of a log with everything, by index and by evaluation."""
    facts = [*xids(200), *extract_pasted_facts(text_of(rank, 30) + "\n" + text_of(raised, 30) + "\n" + text_of(words, 30), CHECKS).facts]
    for one in load_taxonomy().leaves.values():
        for clue in one.evidence:
            values = clue.expression.values
            held = [fact.value for fact in facts if values is not None and clue.matches(fact)]
            assert all(value in (values or ()) for value in held), clue.when


# --- attached files


def test_events_of_gpus_that_no_host_has_are_named_in_one_fact_and_not_kept() -> None:
    found = extract_pasted_facts(
        "\n".join((pair(0), pair(1), "[9.5] NVRM: Xid (PCI:0000:19:00): 79, pid=1, GPU has fallen off the bus.")), CHECKS
    )
    kept, left_out = select_own_facts(found, (), frozenset({"0000:19:00.0"}))
    assert [fact.device for fact in kept if fact.key == "kernel.xid"] == ["0000:19:00.0"]
    assert [(fact.value, fact.attrs) for fact in kept if fact.key == "check.foreign"] == [(2, {"bdf": "0000:00:00.0"})]
    assert left_out == 0
    assert select_own_facts(found, (), frozenset()) == (found.facts, 0), "where that is not known all are kept"


def test_an_incident_keeps_only_so_many_facts_of_texts_however_many_are_handed_in() -> None:
    found = extract_pasted_facts(text_of(pair, 300), CHECKS)
    others = [Fact("dmesg", "kernel.xid", n) for n in range(MAX_TEXT_FACTS - 10)]
    kept, left_out = select_own_facts(found, others, frozenset())
    assert (len(kept), left_out) == (10, len(found.facts) - 10)


def test_a_file_says_how_much_of_it_was_left_out() -> None:
    row = FileReadResult(name="syslog", size=4_600_000, kinds=3, line="Xid 79", at=T0 - timedelta(hours=1), left_out=12_345)
    said = format_file_read(row)
    assert said.startswith("4.6 MB: 3 kinds of errors, first Xid 79 at ")
    assert said.endswith("; could not look at all: 12,345 more things that it says were left out")
