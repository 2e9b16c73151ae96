"""gpu_burn as a speed test: the median of the run without its first readings."""

from tests.support.samples_exclusive import BURN, BURN_DIED
from tools.checks import CHECKS
from tools.fact import Status

RUN = CHECKS["gemm"]


def values(text: str, key: str) -> dict[str | None, object]:
    return {fact.device: fact.value for fact in RUN.parse_output(text) if fact.key == key}


def test_a_slow_gpu_shows_against_the_median_of_the_others() -> None:
    assert values(BURN, "gemm.tflops") == {"gpu0": 401.5, "gpu1": 399.5, "gpu2": 160.75}
    share = values(BURN, "gemm.share")
    assert (share["gpu1"], share["gpu2"]) == (1.0, 0.402)
    assert values(BURN, "gemm.temp")["gpu2"] == 92


def test_errors_of_every_stretch_between_summaries_count() -> None:
    assert values(BURN, "gemm.errors") == {"gpu0": 0, "gpu1": 5, "gpu2": 0}


def test_a_gpu_that_died_is_not_called_right() -> None:
    assert values(BURN_DIED, "gemm.died") == {"gpu0": False, "gpu1": True}
    assert values(BURN_DIED, "gemm.errors") == {"gpu0": 0}


def test_a_run_without_verdicts_reports_errors_and_calls_no_gpu_right() -> None:
    text = BURN.partition("\nKilling")[0]
    assert values(text, "gemm.errors") == {"gpu1": 5}
    assert [fact.status for fact in RUN.parse_output(text) if not fact.key] == [Status.UNREADABLE]


def test_cuda_that_does_not_start_is_told_as_such() -> None:
    (fact,) = RUN.parse_output(
        'Couldn\'t init a GPU test: Error in "init": system not yet initialized\n\nNo clients are alive!  Aborting\n'
    )
    assert (fact.key, fact.value) == ("cuda.error", "not_ready")
