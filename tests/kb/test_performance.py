"""The performance model: hand-counted amounts, overlap, interval, peers and suspect, compared with published figures."""

import math
from dataclasses import replace
from statistics import median

import pytest

from kb.catalogues.accelerators import find_accelerator, load_accelerators
from kb.performance.comparison import adjust_to_peers, compare_time
from kb.performance.efficiency import HOST, IN_SWITCH, MEMORY, NETWORK, PEER, PRODUCTS, PRODUCTS_8, RING, TRAINING, get_training_efficiency
from kb.performance.time_model import (
    TimePart,
    compute_expected_time,
    compute_job_amounts,
    compute_model_flops,
    compute_overlapped_time,
    compute_peer_bytes,
)
from kb.performance.workloads import (
    AllReduce,
    BadQuantity,
    BadWorkload,
    Copy,
    Gemm,
    JobShape,
    format_duration,
    parse_bytes,
    parse_count,
    parse_seconds,
)
from tests.kb.published_figures import FIGURES
from tools.inventory.sku import load_skus

A100, H100 = load_accelerators()["a100-sxm-80"], load_accelerators()["h100-sxm"]
GIB = 1 << 30
JOB = JobShape(39e9, 2048, 1152, 288, tensor=8, pipeline=2)


def test_every_gpu_states_who_says_what_it_reaches() -> None:
    assert len(load_accelerators()) >= 15
    for gpu in load_accelerators().values():
        assert gpu.source.startswith("https://")
        assert gpu.clock_source
        assert gpu.flops
        assert gpu.get_peak_flops("fp16") is not None
        assert 0 < gpu.rated_mhz <= gpu.max_mhz <= 3000
        assert min(gpu.memory, gpu.host) > 0
        assert (gpu.nvlink > 0) is (gpu.domain > 1)
        assert gpu.domain >= 1


def test_every_profile_of_a_machine_has_its_gpu_and_their_clocks_agree() -> None:
    for sku in load_skus().values():
        product = sku.products[0].replace("*", "32GB")
        gpu = find_accelerator(product)
        assert gpu is not None, sku.name
        assert sku.expect.get("gpu.clock.sm_max") in (gpu.max_mhz, None), sku.name
        assert sku.gpus == gpu.node or gpu.node == 8, sku.name


@pytest.mark.parametrize(
    ("product", "name"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA GeForce RTX 4090", None),
        ("", None),
    ],
)
def test_a_gpu_is_known_by_what_nvidia_smi_calls_it(product: str, name: str | None) -> None:
    found = find_accelerator(product)
    assert (found.name if found else None) == name


def test_every_efficiency_is_a_range_around_its_centre_with_a_source() -> None:
    for row in (PRODUCTS, PRODUCTS_8, MEMORY, RING, IN_SWITCH, NETWORK, HOST, PEER, *TRAINING.values()):
        assert 0 < row.lowest < row.centre < row.highest <= 1.1
        assert "https://" in row.source


def test_a_gpu_without_published_figures_has_the_widest_range() -> None:
    unknown = get_training_efficiency(load_accelerators()["l40s"], "bf16")
    assert unknown.lowest == min(row.lowest for (_, kind), row in TRAINING.items() if kind == "bf16")
    assert unknown.highest == max(row.highest for (_, kind), row in TRAINING.items() if kind == "bf16")
    assert "nothing published of L40S" in unknown.source


def test_a_step_is_counted_from_its_shape() -> None:
    shape = JobShape(1e9, 1024, 64, 8, layers=16, hidden=2048, sharding="none")
    tokens = 64 * 1024
    assert compute_model_flops(shape) == 6 * tokens * (1e9 + 16 * 2048 * 1024)
    amounts = compute_job_amounts(shape, H100)
    assert amounts.flops == amounts.model_flops == compute_model_flops(shape) / 8
    assert amounts.nvlink == 2 * 7 / 8 * 2 * 1e9, "gradients of two bytes a parameter, summed over eight"
    assert amounts.network == 0
    assert compute_job_amounts(replace(shape, recompute="full"), H100).flops == pytest.approx(amounts.flops * 4 / 3)
    assert amounts.flops < compute_job_amounts(replace(shape, recompute="selective"), H100).flops < amounts.flops * 1.05


def test_tensor_parallelism_moves_over_nvlink_and_all_else_over_the_adapters() -> None:
    amounts = compute_job_amounts(JOB, A100)
    activation = 2 * 2048 * JOB.hidden_size
    sums = 4 * math.ceil(JOB.layer_count / 2) * JOB.micro_batches
    assert amounts.nvlink == pytest.approx(sums * 2 * 7 / 8 * activation)
    assert amounts.network == pytest.approx(2 * JOB.micro_batches * activation / 8 + compute_peer_bytes(2 * 39e9 / 16, 18))


def test_sharded_weights_are_gathered_for_every_micro_batch() -> None:
    once = JobShape(7e9, 2048, 64, 64, sharding="full")
    twice = JobShape(7e9, 2048, 128, 64, sharding="full")
    assert (once.micro_batches, twice.micro_batches) == (1, 2)
    assert compute_job_amounts(twice, H100).network == pytest.approx(compute_job_amounts(once, H100).network * 5 / 3)


def test_compute_and_memory_work_in_turn_and_ports_beside_them() -> None:
    parts = [TimePart("compute", 6, 5, 8), TimePart("memory", 2, 1, 3), TimePart("network", 5, 4, 7, is_parallel=True)]
    assert compute_overlapped_time(parts) == (8, 6, 18), "hidden at the centre and at best, not at worst"
    assert compute_overlapped_time([*parts, TimePart("nvlink", 11, 10, 12, is_parallel=True)]) == (11, 10, 30), (
        "the slowest port is the time of all"
    )
    assert compute_overlapped_time(parts, stretch=1.5) == (12, 9, 27)
    assert compute_overlapped_time(parts[2:]) == (5, 4, 7), "a port alone hides behind nothing anyway"


def test_the_interval_holds_the_centre_and_the_rate_is_work_by_time() -> None:
    for shape in (JOB, AllReduce(8 * GIB, 16), Gemm(8192, 8192, 8192), Copy(GIB), Copy(GIB, "peer"), Copy(GIB, "memory")):
        found = compute_expected_time(shape, A100)
        assert found.min_seconds < found.seconds < found.max_seconds
        assert found.rate == found.work / found.seconds
        assert found.bound in {part.resource for part in found.parts}


def test_a_pipeline_that_fills_and_drains_stretches_the_step() -> None:
    assert compute_expected_time(JOB, A100).stretch == 1 + 1 / JOB.micro_batches
    assert compute_expected_time(replace(JOB, interleave=2), A100).stretch == 1 + 1 / (2 * JOB.micro_batches)


def test_bus_bandwidth_is_bytes_past_each_gpu() -> None:
    assert compute_expected_time(AllReduce(8 * GIB, 8), A100).rate == pytest.approx(0.8 * 300, rel=0.01)
    assert compute_expected_time(AllReduce(8 * GIB, 8), H100).rate == pytest.approx(450, rel=0.01), "switches add up"
    assert compute_expected_time(AllReduce(8 * GIB, 64), H100).rate == pytest.approx(0.95 * 400, rel=0.01)
    assert compute_expected_time(AllReduce(8 * GIB, 64), H100).bound == "network"
    assert compute_expected_time(AllReduce(8 * GIB, 64, network=200e9), H100).rate == pytest.approx(0.95 * 200, rel=0.01)
    assert compute_expected_time(AllReduce(8 * GIB, 8), load_accelerators()["l40s"]).bound == "host link"


def test_small_messages_wait_for_every_step_of_the_ring() -> None:
    assert compute_expected_time(AllReduce(1 << 20, 8), A100).rate < 0.2 * compute_expected_time(AllReduce(8 * GIB, 8), A100).rate


def test_a_low_clock_slows_what_is_computed_and_nothing_else() -> None:
    usual, slow = compute_expected_time(Gemm(8192, 8192, 8192), A100), compute_expected_time(Gemm(8192, 8192, 8192), A100, 200)
    assert slow.seconds == pytest.approx(usual.seconds * 1410 / 200)
    assert compute_expected_time(AllReduce(GIB, 8), A100, 200) == compute_expected_time(AllReduce(GIB, 8), A100)
    assert compute_expected_time(JOB, A100, 200).seconds < compute_expected_time(JOB, A100).seconds * 1410 / 200, "memory keeps its clock"
    assert compute_expected_time(JOB, H100, 1980) == compute_expected_time(JOB, H100), "no clock above the rated one is relied on"


@pytest.mark.parametrize(
    ("shape", "gpu", "field"),
    [
        (lambda: JobShape(70e9, 8192, 1024, 63, tensor=8), "h100-sxm", "gpus"),
        (lambda: JobShape(70e9, 8192, 1023, 64, tensor=8), "h100-sxm", "batch"),
        (lambda: JobShape(70e9, 8192, 1024, 64, pipeline=64, interleave=4), "h100-sxm", "pipeline"),
        (lambda: JobShape(70.0, 8192, 1024, 64), "h100-sxm", "params"),
        (lambda: JobShape(70e9, 0, 1024, 64), "h100-sxm", "sequence"),
        (lambda: AllReduce(GIB, 1), "h100-sxm", "gpus"),
        (lambda: Gemm(0, 8, 8), "h100-sxm", "m"),
        (lambda: Copy(0), "h100-sxm", "size"),
        (lambda: Gemm(8192, 8192, 8192, "fp8"), "a100-sxm-80", "precision"),
        (lambda: Gemm(8192, 8192, 8192, "bf16"), "v100-sxm2", "precision"),
        (lambda: AllReduce(GIB, 16), "l40s", "network"),
        (lambda: AllReduce(GIB, 144), "gb200", "gpus"),
        (lambda: JobShape(7e9, 2048, 64, 16), "l40s", "gpus"),
        (lambda: JobShape(7e9, 2048, 64, 8, tensor=2), "l40s", "gpus"),
    ],
)
def test_what_cannot_be_is_refused_by_the_name_of_its_field(shape: object, gpu: str, field: str) -> None:
    with pytest.raises(BadWorkload) as told:
        compute_expected_time(shape(), load_accelerators()[gpu])  # type: ignore[operator]  # a shape that may refuse to be made
    assert told.value.field == field
    assert str(told.value).startswith(f"{field}: ")


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (parse_count, "70B", 70e9), (parse_count, "1.3T", 1.3e12), (parse_count, " 405 b ", 405e9), (parse_count, "1300", 1300),
        (parse_bytes, "8G", 8 * GIB), (parse_bytes, "512MiB", 512 << 20), (parse_bytes, "1gb", GIB), (parse_bytes, "1073741824", GIB),
        (parse_seconds, "12.3s", 12.3), (parse_seconds, "350ms", 0.35), (parse_seconds, "2min", 120), (parse_seconds, "41us", 41e-6),
    ],
)  # fmt: skip
def test_amounts_are_read_as_people_write_them(read: object, text: str, value: float) -> None:
    assert read(text) == pytest.approx(value)  # type: ignore[operator]  # one of three readers


@pytest.mark.parametrize("text", ["", "B", "70Q", "-3s", "0", "nan", "1e9", "70 B B", "9" * 400, "70B; reboot"])
def test_what_is_no_amount_is_refused_with_an_example(text: str) -> None:
    for read in (parse_count, parse_bytes, parse_seconds):
        if read is parse_bytes and text == "B":
            continue
        with pytest.raises(BadQuantity, match="write it as"):
            read(text)


def test_times_are_said_in_the_unit_that_people_use() -> None:
    assert [format_duration(t) for t in (66.4, 1.0, 0.35, 41.2e-6, 5e-9, 12345.6)] == [
        "66.4 s",
        "1 s",
        "350 ms",
        "41.2 µs",
        "5 ns",
        "12,346 s",
    ]


USUAL = compute_expected_time(JOB, A100)


def test_what_lies_within_the_interval_is_as_expected() -> None:
    assert compare_time(USUAL, USUAL.seconds).verdict == "as expected"
    assert compare_time(USUAL, USUAL.max_seconds * 0.99).verdict == "as expected"
    assert compare_time(USUAL, USUAL.min_seconds * 0.5).verdict == "fast"
    assert compare_time(USUAL, USUAL.seconds).suspect is None


def test_a_third_of_the_speed_with_a_gpu_at_200_mhz_accuses_its_clock() -> None:
    """The case of arXiv 2411.05349: one GPU at 200 MHz instead of 1,410, and the job at a third of its speed."""
    found = compare_time(USUAL, 3 * USUAL.seconds, compute_expected_time(JOB, A100, 200), 200)
    assert (found.verdict, found.suspect, round(found.ratio, 2)) == ("slow", "compute", 0.33)
    assert "at an SM clock of 200 MHz" in found.because
    assert "more than explains it" in found.because


def test_a_clock_that_is_too_little_low_does_not_explain_everything() -> None:
    assert "does not explain all of it" in compare_time(USUAL, 10 * USUAL.seconds, compute_expected_time(JOB, A100, 1100), 1100).because
    same = compare_time(USUAL, 10 * USUAL.seconds, compute_expected_time(JOB, A100, 1410), 1410)
    assert "SM clock" not in same.because, "a usual clock accuses nobody"


def test_without_a_clock_the_resource_that_needs_to_lose_least_is_suspected() -> None:
    found = compare_time(USUAL, 3 * USUAL.seconds)
    assert found.suspect == "compute"
    speeds = dict(found.speeds)
    assert speeds["compute"] == max(speeds.values())
    slowed = [replace(part, seconds=part.seconds / speeds["compute"]) if part.resource == "compute" else part for part in USUAL.parts]
    assert compute_overlapped_time(slowed, USUAL.stretch)[0] == pytest.approx(3 * USUAL.seconds), (
        "at that speed the step takes what was seen"
    )
    sums = compare_time(
        compute_expected_time(AllReduce(8 * GIB, 64), H100), 2 * compute_expected_time(AllReduce(8 * GIB, 64), H100).seconds
    )
    assert sums.suspect == "network"
    assert dict(sums.speeds)["network"] == pytest.approx(0.5)


def test_peers_stand_in_for_the_model_once_there_are_three() -> None:
    assert adjust_to_peers(USUAL, [30, 31]) == USUAL
    found = adjust_to_peers(USUAL, [30, 31, 32, 29, 90])
    assert (found.seconds, found.peers) == (31, 5)
    assert found.min_seconds < 29 < 32 < found.max_seconds < 40
    assert sum(part.seconds for part in found.parts) == pytest.approx(sum(part.seconds for part in USUAL.parts) * 31 / USUAL.seconds)
    assert compare_time(found, 90).verdict == "slow"
    assert compare_time(found, 33).verdict == "as expected"


def test_the_figures_of_others_are_met_within_what_the_document_says() -> None:
    unseen = [figure for figure in FIGURES if not figure.used]
    assert len(unseen) >= 12
    assert {figure.unit for figure in unseen} == {"tokens/s/GPU", "TFLOP/s", "GB/s"}
    assert all(figure.source.startswith("https://") for figure in FIGURES)
    assert median(abs(figure.error) for figure in unseen) <= 0.1
    assert max(abs(figure.error) for figure in unseen) <= 0.5
