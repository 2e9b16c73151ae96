"""Matrix products on all GPUs at once with `gpu_burn`: speed under full load, and whether results repeat.

    100.0%  proc'd: 9366 (391206 Gflop/s) - 9312 (389024 Gflop/s)   errors: 0 - 4  (WARNING!)  temps: 63 C - 66 C
    Tested 2 GPUs:
            GPU 0: OK
            GPU 1: FAULTY

gpu_burn compares every product with the same GPU's first one, so an error is a differing bit. The right TFLOP/s
depend on its build and the matrices, so a GPU is compared with the median of the run.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.checks.exclusive.cuda import find_cuda_error
from tools.checks.exclusive.nccl import is_nccl, parse_nccl
from tools.fact import Fact, Status, build_unobserved_fact

GEMM_BURN_SECONDS = 30
SDC_BURN_SECONDS = 120
INSTALL_HINT = "gpu_burn in the folder that the inventory calls gpu_burn (/opt/gpu-burn): https://github.com/wilicc/gpu-burn (make)"
_RATE_PATTERN = re.compile(r"(-?\d{1,12}) \((\d{1,9}|-?nan|inf) Gflop/s\)")
_ERRORS_PATTERN = re.compile(r"errors: (.{1,2000}?)(?:  temps:|$)")
_TEMPS_PATTERN = re.compile(r"temps: (.{1,2000}?)(?:  power:|$)")
_VERDICT_PATTERN = re.compile(r"^\s*GPU (\d{1,3}): (OK|FAULTY)\s*$", re.MULTILINE)
_FAILURE_PATTERN = re.compile(r"Couldn't init a GPU test: ([^\n]{1,200})|No clients are alive|No CUDA devices|Error in [^\n]{1,200}")


@dataclass(frozen=True, slots=True)
class GpuBurnResult:
    """One GPU's last progress line; `errors` counts the whole run."""

    gpu: int
    gflops: float  # median of the run's second half
    done: int  # products so far; negative if the GPU died
    errors: int
    temp: int | None  # Celsius
    line: str


def is_burn(text: str) -> bool:
    return (
        "Gflop/s)" in text
        or "GPU Burn" in text[:2000]
        or bool(_FAILURE_PATTERN.search(text))
        or ("Tested " in text and bool(_VERDICT_PATTERN.search(text)))
    )


def parse_burn_results(text: str) -> list[GpuBurnResult]:
    """Return one result per GPU; empty if there is no line of progress."""
    lines = [line for line in re.split(r"[\r\n]", text) if "Gflop/s)" in line]
    last_line = next((line for line in reversed(lines) if _RATE_PATTERN.search(line) and _ERRORS_PATTERN.search(line)), "")
    gpu_rates = _RATE_PATTERN.findall(last_line)
    gpu_count = len(gpu_rates)
    errors = _count_errors(lines, gpu_count)
    temps = _parse_temperatures(last_line)
    results = []
    for gpu, (done, _) in enumerate(gpu_rates):
        temp = temps[gpu] if gpu < len(temps) else None
        gflops = _compute_median_rate(lines, gpu, gpu_count)
        results.append(GpuBurnResult(gpu, gflops, int(done), errors[gpu], temp, last_line.strip()[:300]))
    return results


def _parse_temperatures(line: str) -> list[int | None]:
    """Return a temperature per GPU; None where gpu_burn printed `--`."""
    temps = re.findall(r"(\d{1,4}|--)(?: C)?", _find_group(_TEMPS_PATTERN, line))
    return [int(temp) if temp.isdecimal() else None for temp in temps]


def _find_group(pattern: re.Pattern[str], line: str) -> str:
    match = pattern.search(line)
    return match[1] if match else ""


def _compute_median_rate(lines: Sequence[str], gpu: int, gpu_count: int) -> float:
    """Return the median Gflop/s of the run's second half: clocks have not settled before."""
    rates = []
    for line in lines:
        gpu_rates = _RATE_PATTERN.findall(line)
        if len(gpu_rates) != gpu_count:
            continue
        done, gflops = gpu_rates[gpu]
        if gflops.isdecimal() and int(done) > 0:
            rates.append(float(gflops))
    return median(rates[len(rates) // 2 :]) if rates else 0.0


def _count_errors(lines: Sequence[str], gpu_count: int) -> list[int]:
    """Sum the increments of each GPU's error count, because gpu_burn resets the counts at summaries."""
    totals, previous_counts = [0] * gpu_count, [0] * gpu_count
    for line in lines:
        counts = [int(word) for word in re.findall(r"(?:^|- )(\d{1,10})", _find_group(_ERRORS_PATTERN, line))]
        if len(counts) != gpu_count:
            continue
        for gpu, count in enumerate(counts):
            was_reset = count < previous_counts[gpu]
            totals[gpu] += count if was_reset else count - previous_counts[gpu]
        previous_counts = counts
    return totals


def parse_gemm(text: str) -> Sequence[Fact]:
    if error := _find_cuda_failure("gemm", text):
        return [error]
    results = _require_burn_results(text)
    rates = [result.gflops for result in results if result.gflops > 0]
    median_gflops = median(rates) if rates else 0.0
    facts = []
    for result in results:
        device = f"gpu{result.gpu}"
        facts.append(Fact("gemm", "gemm.died", result.done < 0, device, line=result.line))
        if result.gflops > 0:
            facts.append(Fact("gemm", "gemm.tflops", round(result.gflops / 1000, 2), device, line=result.line))
            facts.append(Fact("gemm", "gemm.share", round(result.gflops / median_gflops, 3), device, line=result.line))
        if result.temp:
            facts.append(Fact("gemm", "gemm.temp", result.temp, device, unit="C", line=result.line))
    return facts + _build_error_facts("gemm", "gemm.errors", results, text)


def parse_sdc(text: str) -> Sequence[Fact]:
    error = _find_cuda_failure("sdc", text)
    return [error] if error else _build_error_facts("sdc", "sdc.mismatches", _require_burn_results(text), text)


def _find_cuda_failure(check: str, text: str) -> Fact | None:
    return find_cuda_error(check, text) if "Gflop/s)" not in text else None


def _require_burn_results(text: str) -> list[GpuBurnResult]:
    """Return the results. Raise Unreadable with gpu_burn's own complaint if there are none."""
    results = parse_burn_results(text)
    if results:
        return results
    failure = _FAILURE_PATTERN.search(text)
    raise Unreadable(f"it did not run: {' '.join(failure[0].split())[:160]}" if failure else "no line of progress")


def _build_error_facts(check: str, key: str, results: Sequence[GpuBurnResult], text: str) -> list[Fact]:
    """Report errors in any case, but their absence only of GPUs with a verdict line."""
    verdicts = {int(gpu): verdict for gpu, verdict in _VERDICT_PATTERN.findall(text)}
    facts = []
    for result in results:
        if result.errors or verdicts.get(result.gpu) == "FAULTY":
            facts.append(Fact(check, key, max(result.errors, 1), f"gpu{result.gpu}", line=result.line))
        elif result.gpu in verdicts and result.done >= 0:
            facts.append(Fact(check, key, 0, f"gpu{result.gpu}", line=f"GPU {result.gpu}: OK"))
    if len(verdicts) < len(results):
        facts.append(build_unobserved_fact(check, Status.UNREADABLE, "gpu_burn ended before its verdicts"))
    return facts


def _parse_nccl_as_sdc(text: str) -> Sequence[Fact]:
    """Keep only whether results were right; another check judges speed."""
    facts = [fact for fact in parse_nccl(text) if fact.key in ("nccl.wrong", "nccl.failure") or not fact.key]
    if not facts:
        raise Unreadable("the results were not checked to the end")
    return [replace(fact, check="sdc") for fact in facts]


def _build_burn_command(seconds: int) -> tuple[str, ...]:
    return ("{gpu_burn}/gpu_burn", "-tc", "-stts", "3", "-c", "{gpu_burn}/compare.ptx", str(seconds))


CHECKS = (
    Check(
        id="gemm",
        asks="How fast does each GPU multiply matrices when all of them are under full load?",
        commands=(Command("run", _build_burn_command(GEMM_BURN_SECONDS)),),
        formats=(Format("gpu_burn", is_burn, parse_gemm),),
        establishes=("gemm.tflops", "gemm.share", "gemm.temp", "gemm.errors", "gemm.died", "cuda.error"),
        seconds=40.0,
        exclusive=True,
        timeout=120.0,
        tool=INSTALL_HINT,
    ),
    Check(
        id="sdc",
        asks="Do the GPUs get the same result each time they compute the same?",
        commands=(
            Command("products", _build_burn_command(SDC_BURN_SECONDS)),
            Command(
                "sums", ("{nccl_tests}/all_reduce_perf", "-b", "1G", "-e", "1G", "-g", "{gpus}", "-c", "1", "-n", "100"), optional=True
            ),
        ),
        formats=(Format("gpu_burn", is_burn, parse_sdc), Format("nccl-tests", is_nccl, _parse_nccl_as_sdc)),
        establishes=("sdc.mismatches", "nccl.wrong", "nccl.failure", "cuda.error"),
        seconds=180.0,
        exclusive=True,
        timeout=240.0,
        tool=INSTALL_HINT,
    ),
)
