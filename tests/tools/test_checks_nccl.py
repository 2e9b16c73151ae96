"""nccl-tests parsing: figures, wrong elements and failures in every layout."""

import pytest

from tests.support.samples_checks import NCCL, NCCL_FAILED
from tools.checks import CHECKS
from tools.fact import Fact, Status

RUN = CHECKS["nccl1"]
HEAD_OLD = "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n"
FOOT = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 120.5\n"


def told(text: str) -> dict[str, object]:
    return {fact.key: fact.value for fact in RUN.parse_output(text) if fact.key != "nccl.busbw_at" and fact.status is Status.OK}


def blinds(facts: tuple[Fact, ...]) -> list[str]:
    return [fact.line for fact in facts if fact.status.blind]


def test_a_whole_run_gives_all_figures() -> None:
    assert told(NCCL) == {
        "nccl.ranks": 8,
        "nccl.degenerate": False,
        "nccl.wrong": 3,
        "nccl.busbw_max": 478.89,
        "nccl.busbw_avg": 465.303,
    }
    wrong = next(fact for fact in RUN.parse_output(NCCL) if fact.key == "nccl.wrong")
    assert wrong.attrs["sizes"] == [8589934592]
    assert "8589934592" in wrong.line


@pytest.mark.parametrize(
    ("kind", "error", "wrong"),
    [
        ("float", "2e-07", 0),
        ("float", "1e+00", 2),
        ("half", "5e-03", 0),
        ("half", "2e-01", 2),
        ("double", "1e-14", 0),
        ("int32", "1e+00", 2),
    ],
)
def test_the_old_deviation_is_judged_by_the_type(kind: str, error: str, wrong: int) -> None:
    row = f"  1073741824  268435456  {kind}  sum  15986  67.17  123.14  {error}  15989  67.15  123.12  {error}\n"
    assert told(HEAD_OLD + row + FOOT)["nccl.wrong"] == wrong


def test_the_footer_s_verdict_counts_where_the_rows_were_cut_out() -> None:
    row = "  1073741824  268435456  float  sum  -1  15986  67.17  123.14  0  15989  67.15  123.12  0\n"
    assert told(row + "# Out of bounds values : 12 FAILED\n")["nccl.wrong"] == 12


@pytest.mark.parametrize("tag", ["0: ", "[1,0]<stdout>:", "[0]", "   "])
def test_launcher_tags_do_not_matter(tag: str) -> None:
    tagged = "".join(tag + line for line in NCCL.splitlines(keepends=True))
    assert told(tagged) == told(NCCL)


def test_iterations_and_one_half_and_no_root_are_layouts_too() -> None:
    iters = "  33554432  8388608  float  sum  -1  25.70  130.8  228.90  0  20.0  170.0  299.00  0  20\n"
    assert told(iters + FOOT)["nccl.busbw_max"] == 299.0
    half = "  33554432  8388608  float  sum  -1  25.70  130.8  228.90  0\n"
    assert told(half + FOOT)["nccl.busbw_max"] == 228.9
    gather = HEAD_OLD.replace("redop", "") + "  67108848  1398101  float  915.3  67.21  67.21  0e+00  595.5  103.30  103.30  0e+00\n"
    assert told(gather + FOOT)["nccl.busbw_max"] == 103.3


def test_ranks_come_from_the_ratio_where_they_are_not_listed() -> None:
    row = "  8589934592  2147483648  float  sum  -1  31400.0  273.56  478.73  0\n"
    fact = next(fact for fact in RUN.parse_output(row + FOOT) if fact.key == "nccl.ranks")
    assert (fact.value, fact.attrs) == (8, {"derived": True})


def test_one_rank_has_no_figures() -> None:
    row = "    33554432       8388608     float    none      -1    19.56  1715.44    0.00      0     0.78  43046.10    0.00    N/A\n"
    assert told(row + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0\n") == {"nccl.degenerate": True}


@pytest.mark.parametrize("cut", [1, 2])
def test_a_cut_table_calls_nothing_right(cut: int) -> None:
    whole = NCCL.replace("478.89      3", "478.89      0").replace("3 FAILED", "0 OK")
    lines = whole.splitlines(keepends=True)
    text = "".join(lines[: len(lines) - 3]) if cut == 1 else "".join(lines[: len(lines) - 3])[:-40]
    facts = RUN.parse_output(text)
    assert blinds(facts)
    assert "nccl.wrong" not in told(text)
    assert told(whole)["nccl.wrong"] == 0


@pytest.mark.parametrize(
    ("text", "failure"),
    [
        (NCCL_FAILED, "cuda_802"),
        ("h: Test CUDA failure common.cu:1304 'CUDA-capable device(s) is/are busy or unavailable'\n", "devices_busy"),
        ("h: Test NCCL failure common.cu:958 'invalid usage'\n", "init_failed"),
        (
            "/opt/nccl-tests/all_reduce_perf: error while loading shared libraries: libnccl.so.2: cannot open shared object file\n",
            "missing_tool",
        ),
        ("bash: /opt/nccl-tests/all_reduce_perf: No such file or directory\n", "missing_tool"),
        ("h: Test CUDA failure common.cu:100 'unspecified launch failure'\n", "other"),
    ],
)
def test_a_run_that_failed_says_why(text: str, failure: str) -> None:
    assert told(text) == {"nccl.failure": failure}


def test_small_messages_make_no_bandwidth_facts() -> None:
    row = "  {size}  2  float  sum  -1  61.03  0.01  0.02  0  61.04  0.01  0.02  0\n"
    text = "".join(row.format(size=size) for size in (8, 1024, 1 << 20, 1 << 21)) + FOOT
    assert [fact.attrs["size"] for fact in RUN.parse_output(text) if fact.key == "nccl.busbw_at"] == [1 << 20, 1 << 21]
