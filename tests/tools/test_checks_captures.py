"""Published captures are parsed into correct facts or refused with a reason; no parser raises or wrongly reports
health.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import CAPTURES
from tools.checks import CHECKS
from tools.fact import Fact, Status

pytestmark = [pytest.mark.skipif(not CAPTURES.is_dir(), reason=f"no captures at {CAPTURES}"), pytest.mark.slow]


def files(folder: str, pattern: str) -> list[Path]:
    return sorted((CAPTURES / folder).glob(pattern)) if CAPTURES.is_dir() else []


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def look(check: str, folder: str, name: str) -> tuple[Fact, ...]:
    (path,) = files(folder, name)
    return CHECKS[check].parse_output(text_of(path))


def values(facts: tuple[Fact, ...], key: str) -> dict[str | None, object]:
    return {fact.device: fact.value for fact in facts if fact.key == key and fact.status is Status.OK}


def blinds(facts: tuple[Fact, ...]) -> list[str]:
    return [fact.line for fact in facts if not fact.key]


def sections(path: Path) -> Iterator[tuple[str, str, str]]:
    """Yield (title, command, output) of a file that concatenates many outputs."""
    for part in re.split(r"(?m)^#{80}\n(?=# \S+ :: )", text_of(path))[1:]:
        head, _, body = part.partition("#" * 80 + "\n")
        title, *rest = head.splitlines()
        yield title, rest[0].removeprefix("# $ ") if rest else "", body


ALL = [path for folder in ("dcgm", "dmesg", "infiniband", "nccl-tests", "nvidia-smi") for path in files(folder, "*") if path.is_file()]


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.name)
def test_no_file_makes_any_check_raise_and_every_refusal_gives_a_reason(path: Path) -> None:
    text = text_of(path)
    for check in CHECKS.values():
        facts = check.parse_output(text)
        facts = tuple(check.settle(facts)) if check.settle else facts
        assert facts
        for fact in facts:
            assert fact.key or fact.line, f"{check.id}: a blind fact without a reason"
            assert fact.status is not Status.OK or fact.value is not None, f"{check.id}: {fact.key} is ok without a value"


@pytest.mark.parametrize("path", files("nvidia-smi", "*.xml"), ids=lambda path: path.name)
def test_every_xml_file_yields_the_identity_of_each_gpu_it_describes(path: Path) -> None:
    facts = CHECKS["smi"].parse_output(text_of(path))
    described = text_of(path).count("<gpu id=")
    assert len(values(facts, "gpu.product")) == described
    assert len(values(facts, "gpu.uuid")) == described
    attached = re.search(r"<attached_gpus>(\d+)", text_of(path))
    if attached and int(attached[1]) != described:
        assert blinds(facts) == [f"{attached[1]} GPUs are attached, {described} are described"]
        assert not values(facts, "gpu.count")
    else:
        assert not blinds(facts)
        assert values(facts, "gpu.count")[None] == described - sum(value is True for value in values(facts, "gpu.lost").values())


@pytest.mark.parametrize("path", files("nvidia-smi", "q__*.txt"), ids=lambda path: path.name)
def test_every_query_text_is_read_whole(path: Path) -> None:
    facts = CHECKS["smi"].parse_output(text_of(path))
    assert not blinds(facts)
    assert len(values(facts, "gpu.bdf")) == values(facts, "gpu.count")[None] == len(re.findall(r"(?m)^GPU 0000", text_of(path)))
    assert len(values(facts, "gpu.clock.sm")) == len(values(facts, "gpu.bdf"))


def test_healthy_data_centre_nodes_are_healthy_and_complete() -> None:
    for name, gpus, product in (
        ("h100-sxm5x8*", 8, "NVIDIA H100 80GB HBM3"),
        ("b200x8*", 8, "NVIDIA B200"),
        ("gb200x4*", 4, "NVIDIA GB200"),
        ("gb300x4*", 4, "NVIDIA GB300"),
    ):
        facts = look("smi", "nvidia-smi", name)
        assert values(facts, "gpu.count")[None] == gpus
        assert set(values(facts, "gpu.product").values()) == {product}
        assert set(values(facts, "gpu.lost").values()) == {False}
        for key in ("gpu.ecc.dram_uncorrectable", "gpu.ecc.sram_uncorrectable", "gpu.remap.uncorrectable", "gpu.remap.bank_low"):
            assert list(values(facts, key).values()) == [0] * gpus, key
        for key in ("gpu.remap.pending", "gpu.remap.failure", "gpu.throttle.hw_thermal", "gpu.mig", "gpu.inforom_corrupt"):
            assert list(values(facts, key).values()) == [False] * gpus, key
        assert set(values(facts, "gpu.fabric.state").values()) == {"Completed"}


def test_a_lost_gpu_has_an_identity_and_no_healthy_values() -> None:
    facts = look("smi", "nvidia-smi", "MOCK-gb200x2*gpu-is-lost.xml")
    assert values(facts, "gpu.lost") == {"gpu0": False, "gpu1": True}
    assert values(facts, "gpu.count")[None] == 1
    keys = {fact.key for fact in facts if fact.device == "gpu1"}
    assert keys == {"gpu.lost", "gpu.bdf", "gpu.uuid", "gpu.product", "gpu.serial", "gpu.vbios"}


def test_injected_memory_errors_and_fabric_trouble_are_found() -> None:
    ecc = look("smi", "nvidia-smi", "*ecc-uncorrectable-remap-failure.xml")
    assert values(ecc, "gpu.ecc.dram_uncorrectable") == {"gpu0": 5, "gpu1": 0}
    assert values(ecc, "gpu.ecc.dram_uncorrectable_total")["gpu0"] == 8
    assert values(ecc, "gpu.remap.failure")["gpu0"] is True
    fabric = look("smi", "nvidia-smi", "*fabric-degraded.xml")
    assert values(fabric, "gpu.fabric.health") == {"gpu0": "Healthy", "gpu1": "Unhealthy"}


def test_old_ecc_layouts_and_retired_pages_are_read() -> None:
    v100 = look("smi", "nvidia-smi", "v100-sxm3*")
    device = "0000:34:00.0"
    assert values(v100, "gpu.retired.pending") == {device: True}
    assert values(v100, "gpu.retired.pages") == {device: 2}
    assert values(v100, "gpu.ecc.dram_uncorrectable_total") == {device: 7627}
    k80 = look("smi", "nvidia-smi", "tesla-k80x4*")
    assert values(k80, "gpu.ecc.dram_correctable_total") == {"gpu0": 7, "gpu1": 34, "gpu2": 0, "gpu3": 0}
    assert {f.status for f in k80 if f.key == "driver.cuda_version"} == {Status.ABSENT}


def test_throttling_mig_and_narrow_links_are_found() -> None:
    brake = look("smi", "nvidia-smi", "q__h100x8*hw-power-brake.txt")
    assert list(values(brake, "gpu.throttle.hw_power_brake").values()) == [True] * 8
    assert list(values(brake, "gpu.throttle.hw_thermal").values()) == [False] * 8
    cap = look("smi", "nvidia-smi", "q__rtx4090x8*sw-power-cap*")
    assert [device for device, value in values(cap, "gpu.throttle.sw_power_cap").items() if value] == ["gpu4"]
    assert values(look("smi", "nvidia-smi", "a100-sxm4-80gb-mig*"), "gpu.mig") == {"0000:01:00.0": True}
    narrow = look("smi", "nvidia-smi", "gtx1070x6*")
    assert set(values(narrow, "gpu.pcie.width").values()) == {1}
    assert set(values(narrow, "gpu.pcie.width_max").values()) == {16}


def test_unknown_errors_are_named_and_a_field_that_is_not_there_is_absent_not_zero() -> None:
    unknown = look("smi", "nvidia-smi", "q__rtx4090x8*unknown-error.txt")
    assert values(unknown, "gpu.field_errors") == {f"gpu{n}": ["addressing_mode"] for n in range(8)}
    guest = look("smi", "nvidia-smi", "grid-p4*")
    absent = {fact.key for fact in guest if fact.status is Status.ABSENT}
    assert {"gpu.temp.slowdown", "gpu.ecc.dram_uncorrectable", "gpu.power.draw"} <= absent
    azure = look("smi", "nvidia-smi", "csv__azure*")
    assert {fact.status for fact in azure if fact.key == "gpu.remap.failure"} == {Status.ABSENT}
    assert values(azure, "gpu.bdf")["gpu2"] == "000a:00:00.0"


def test_the_plain_table_is_read() -> None:
    facts = look("smi", "nvidia-smi", "table__h100x8*")
    assert values(facts, "gpu.count")[None] == 8
    assert values(facts, "gpu.bdf")["gpu4"] == "0000:9b:00.0"
    assert values(facts, "gpu.power.limit")["gpu0"] == 700.0
    assert values(facts, "gpu.temp.core")["gpu0"] == 27


GLUED = files("nvidia-smi", "CAPTURE_*.txt")
READ_BY = {
    "nvidia-smi": ("smi", "gpu.count"),
    "nvidia-smi -q": ("smi", "gpu.count"),
    "nvidia-smi -L": ("smi", "gpu.count"),
    "nvidia-smi topo -m": ("topo", "topo.peers"),
    "nvidia-smi nvlink -s": ("nvlink", "nvlink.active"),
}


@pytest.mark.parametrize("path", GLUED, ids=lambda path: path.name)
def test_outputs_glued_together_are_refused_and_each_alone_is_read(path: Path) -> None:
    assert [fact.status for fact in CHECKS["smi"].parse_output(text_of(path))] == [Status.UNREADABLE]
    seen = set()
    for title, command, body in sections(path):
        name = next((name for name in READ_BY if command.strip() == name), "nvidia-smi -q" if "query-gpu=" in command else "")
        if not name or ("windows" in path.name and "topo" in name):
            continue
        check, key = READ_BY[name]
        facts = CHECKS[check].parse_output(body)
        assert any(fact.key == key for fact in facts), f"{title}: {blinds(facts)}"
        seen.add(name)
    assert {"nvidia-smi", "nvidia-smi -q", "nvidia-smi -L"} <= seen


@pytest.mark.parametrize("path", GLUED, ids=lambda path: path.name)
def test_text_table_and_csv_of_one_moment_agree(path: Path) -> None:
    """Three formats of one GPU at one time agree on the facts they share."""
    idle = {command.strip().partition("=")[0]: body for title, command, body in sections(path) if title.startswith("# idle")}
    query, table = (CHECKS["smi"].parse_output(idle[name]) for name in ("nvidia-smi -q", "nvidia-smi"))
    csv = CHECKS["smi"].parse_output(idle["nvidia-smi --query-gpu"])
    for key in ("gpu.product", "gpu.bdf", "gpu.memory.total", "gpu.power.limit", "gpu.compute_mode", "gpu.mig", "gpu.ecc.enabled"):
        one = values(query, key)
        assert one == values(csv, key), key
        if values(table, key):
            assert {str(value)[:20] for value in one.values()} == {str(value)[:20] for value in values(table, key).values()}, key
    for key in ("gpu.pcie.width", "gpu.temp.slowdown", "gpu.clock.sm_max", "gpu.throttle.hw_thermal", "gpu.remap.pending"):
        if values(csv, key):
            assert values(query, key) == values(csv, key), key


@pytest.mark.parametrize("path", GLUED, ids=lambda path: path.name)
def test_compute_apps_of_the_product_s_own_columns_are_read(path: Path) -> None:
    for _, command, body in sections(path):
        if "--query-compute-apps" not in command:
            continue
        rows = [line.split(", ") for line in body.splitlines() if re.match(r"\d{4}/", line)]
        own = "\n".join(", ".join((row[2], row[5], row[6], row[7].removesuffix(" MiB"))) for row in rows)
        facts = CHECKS["procs"].parse_output(own or "\n")
        assert len([fact for fact in facts if fact.key == "proc.gpu_memory"]) == len(rows)


def test_nvlinks_are_counted_and_dead_ones_named() -> None:
    a100 = look("nvlink", "nvidia-smi", "nvlink-s__a100x8.txt")
    assert values(a100, "nvlink.active") == {f"gpu{n}": 12 for n in range(8)}
    assert set(values(a100, "nvlink.speed").values()) == {25.0}
    v100 = look("nvlink", "nvidia-smi", "nvlink-s__v100x8*")
    assert values(v100, "nvlink.inactive") == {"gpu0": 0, "gpu1": 0, "gpu2": 0, "gpu3": 2, "gpu4": 1, "gpu5": 2, "gpu6": 1}
    assert next(fact.attrs["links"] for fact in v100 if fact.key == "nvlink.inactive" and fact.device == "gpu3") == [3, 5]
    assert values(look("nvlink", "nvidia-smi", "nvlink-e__h100.txt"), "nvlink.crc_errors") == {"gpu0": 0}
    assert blinds(look("nvlink", "nvidia-smi", "nvlink-s__a10.txt")) == ["empty output of nvlink"]


def test_lspci_lists_count_gpus_and_not_switches() -> None:
    a100 = look("lspci", "nvidia-smi", "lspci-nn__a100x8.txt")
    assert values(a100, "pcie.gpu_count") == {None: 8}
    assert set(values(a100, "pcie.rev_ff").values()) == {False}
    assert values(look("lspci", "nvidia-smi", "lspci-nn__a10.txt"), "pcie.gpu_count") == {None: 1}


KERNEL: dict[str, dict[str, set[object]]] = {
    "gpud_dmesg-boot-oom.log": {"kernel.xid": {48, 63, 94}},
    "gpud_dmesg-decode-0.log": {"kernel.xid": {13, 43}},
    "gpud_xid119-gsp-rpc-timeout.log": {"kernel.xid": {119}},
    "gpud_xid13-43-plus-oom.log": {"kernel.xid": {13, 43}, "kernel.oom_kill": {"httpd", "python", "node"}},
    "gpud_segfault-libnccl.log": {"kernel.segfault": {"libnccl.so.2"}},
    "azure_ib-link-flap_6flaps_syslog.log": {"kernel.ib_link": {"lost_carrier", "gained_carrier"}},
    "dmesg__pcie-limited-by__h100.txt": {"kernel.pcie_limited": {"252.048 Gb/s"}},
    "gpud_dmesg-peermem.log": {"kernel.peermem": {"invalid_context"}},
    "gpud_kmsg-peermem.log": {"kernel.peermem": {"invalid_context"}},
}


@pytest.mark.parametrize("name", KERNEL)
def test_kernel_logs_of_every_format_give_their_events(name: str) -> None:
    facts = look("dmesg", "dmesg", name)
    for key, expected in KERNEL[name].items():
        assert {fact.value for fact in facts if fact.key == key and fact.status is Status.OK} == expected
    if "kernel.xid" not in KERNEL[name]:
        assert [fact.status for fact in facts if fact.key == "kernel.xid"] == [Status.ABSENT]


def test_repeats_are_one_fact_with_a_count_and_a_span() -> None:
    facts = look("dmesg", "dmesg", "gpud_xid119-gsp-rpc-timeout.log")
    (fact,) = [fact for fact in facts if fact.key == "kernel.xid"]
    assert (fact.device, fact.attrs["count"]) == ("0000:9b:00.0", 5)
    assert fact.attrs["first"] < fact.attrs["last"]


@pytest.mark.parametrize("name", ["gpud_kubelet-0.log", "gpud_fabric-manager-0.log"])
def test_other_programs_logs_are_no_kernel_logs(name: str) -> None:
    (fact,) = look("dmesg", "dmesg", name)
    assert fact.status is Status.UNREADABLE
    assert fact.line.startswith("not the output of dmesg")


def test_single_lines_from_the_field_give_their_code_and_invented_ones_none() -> None:
    for row in text_of(files("dmesg", "xid_lines.tsv")[0]).splitlines()[1:]:
        code, authenticity, _, line = row.split("\t")
        facts = CHECKS["dmesg"].parse_output(line)
        codes = [fact.value for fact in facts if fact.key == "kernel.xid" and fact.status is Status.OK]
        if code.isdigit() and authenticity.startswith("real") and "Xid (PCI:..." not in line and "Xid (" in line:
            assert codes == [int(code)], line
        elif line.startswith("Xid"):
            assert codes == [], line


def test_fabric_manager_logs_give_their_fatal_errors_only() -> None:
    for row in text_of(files("dmesg", "xid_lines.tsv")[0]).splitlines()[1:]:
        if "detected NVSwitch fatal error 20034" in row:
            facts = CHECKS["sysd"].parse_output(row.split("\t")[3])
            assert [(fact.value, fact.device) for fact in facts] == [("fm_nvswitch_fatal", "nvidia-fabricmanager")]
    log = look("sysd", "dmesg", "gpud_fabric-manager-0.log")
    assert not any("non-fatal" in fact.line for fact in log)


IB_DOWN: dict[str, tuple[int, set[str]]] = {
    "ibstat__h100__all-active-0.txt": (12, set()),
    "ibstat__h100__all-active-2.txt": (9, set()),
    "ibstat__h100__some-down-0.txt": (12, {"mlx5_2", "mlx5_7", "mlx5_8"}),
    "ibstat__h100__some-down-1.txt": (12, {"mlx5_5", "mlx5_11"}),
    "ibstat__h100__some-down-polling.txt": (12, {"mlx5_5", "mlx5_11"}),
    "ibstatus__azure.txt": (2, set()),
}


@pytest.mark.parametrize("name", IB_DOWN)
def test_infiniband_ports_are_counted_and_the_ones_that_are_down_found(name: str) -> None:
    facts = look("ibstat", "infiniband", name)
    count, down = IB_DOWN[name]
    assert values(facts, "ib.count") == {None: count}
    assert {device for device, value in values(facts, "ib.state").items() if value == "Down"} == down
    assert len(values(facts, "ib.rate")) == count
    assert not blinds(facts)


def test_ibstatus_and_ibpanic_are_read() -> None:
    azure = look("ibstat", "infiniband", "ibstatus__azure.txt")
    assert values(azure, "ib.rate") == {"mlx5_an0": 40, "mlx5_ib0": 200}
    assert values(azure, "ib.sm_lid")["mlx5_ib0"] == 0x11C
    panic = look("ibstat", "infiniband", "*ibpanic*")
    assert values(panic, "ib.error") == {None: "ibpanic"}
    assert len(values(panic, "ib.state")) == 8


NCCL = {
    "Azure_ai-infrastructure": (936.93, 0, None),
    "FAIL__gh200x2": (22.87, 128, 2),
    "FAIL__rtx3090x2": (7.64, 750190720, 2),
    "FAIL__v100sxm3x12": (112.34, 4, 12),
    "MOCK__Azure": (483.96, 3, 8),
    "NVIDIA_deepops": (22.92, 0, 16),
    "OK__8ranks": (97.54, 0, 8),
    "OK__v100sxm3x12": (123.57, 0, 12),
    "SLOW__p4d": (42.61, 0, 16),
    "aws-samples_awsome-distributed-training__nccl-tests_README_3": (437.89, 0, 16),
    "coreweave_nccl-tests___README_1": (386.56, 0, None),
    "coreweave_nccl-tests___README_2": (846.82, 0, 72),
    "dstackai_dstack__clusters_gcp_1": (683.52, 0, 16),
    "dstackai_dstack__clusters_gcp_3": (51.05, 0, None),
    "dstackai_dstack__clusters_lambda": (702.91, 0, 16),
    "dstackai_dstack__clusters_nebius": (468.46, 0, 16),
    "facebookresearch_gcm__a100x16": (182.8, 0, 16),
    "facebookresearch_gcm__a100x8": (231.72, 0, 8),
    "oracle-quickstart_oci-hpc-oke__docs_running-nccl-rccl-tests-from-slurm-operator_1": (189.6, 0, 16),
    "oracle-quickstart_oci-hpc-oke__docs_running-nccl-rccl-tests-from-slurm-operator_2": (358.37, 0, 16),
    "oracle-quickstart_oci-hpc__documentation": (471.22, 0, 16),
}


@pytest.mark.parametrize("name", NCCL)
def test_whole_tables_give_plateau_wrong_elements_and_ranks(name: str) -> None:
    facts = look("nccl1", "nccl-tests", f"{name}*")
    best, wrong, ranks = NCCL[name]
    assert values(facts, "nccl.busbw_max") == {None: best}
    assert values(facts, "nccl.wrong") == {None: wrong}
    assert values(facts, "nccl.ranks") == ({None: ranks} if ranks else {})
    assert values(facts, "nccl.degenerate") == {None: False}
    assert not blinds(facts)


@pytest.mark.parametrize(
    ("name", "failure"),
    [
        ("FAIL__a100pcie", "nvml_not_found"),
        ("FAIL__gh200x8", "devices_busy"),
        ("FAIL__h100x8", "cuda_802"),
        ("FAIL__mpirun", "not_enough_slots"),
        ("MOCK__NVIDIA_DCGM__fail-bw", "below_minimum"),
    ],
)
def test_runs_that_failed_say_why(name: str, failure: str) -> None:
    facts = look("nccl1", "nccl-tests", f"{name}*")
    assert values(facts, "nccl.failure") == {None: failure}
    assert not values(facts, "nccl.wrong")
    assert not values(facts, "nccl.busbw_max")


@pytest.mark.parametrize("name", ["DEGENERATE__", "MOCK__NVIDIA_DCGM__pass", "MOCK__NVIDIA_DCGM__out-of-bounds"])
def test_one_rank_has_no_bandwidth(name: str) -> None:
    facts = look("nccl1", "nccl-tests", f"{name}*")
    assert values(facts, "nccl.degenerate") == {None: True}
    assert not values(facts, "nccl.busbw_max")


@pytest.mark.parametrize("name", ["microsoft_superbenchmark__data_nccl_all", "dstackai_dstack__clusters_gcp_2"])
def test_unchecked_results_are_neither_right_nor_wrong(name: str) -> None:
    for path in files("nccl-tests", f"{name}*"):
        facts = CHECKS["nccl1"].parse_output(text_of(path))
        assert [fact.status for fact in facts if fact.key == "nccl.wrong"] == [Status.ABSENT]


@pytest.mark.parametrize("name", ["SLOW__h100x24", "aws-samples_awsome-distributed-training__nccl-tests_README_1"])
def test_a_table_without_its_footer_is_told_to_be_cut_and_calls_nothing_right(name: str) -> None:
    facts = look("nccl1", "nccl-tests", f"{name}*")
    assert blinds(facts) == ["the table ends without its footer"]
    assert not values(facts, "nccl.wrong")
    assert values(facts, "nccl.busbw_max")


def test_rank_tags_glued_into_rows_do_not_hide_the_collapse() -> None:
    facts = look("nccl1", "nccl-tests", "SLOW__h100x24*")
    by_size = {fact.attrs["size"]: fact.value for fact in facts if fact.key == "nccl.busbw_at"}
    assert by_size[33554432] == 29.5
    assert by_size[536870912] == 5.33
    assert values(facts, "nccl.ranks") == {None: 24}


def test_every_nccl_file_has_facts_or_a_failure() -> None:
    for path in files("nccl-tests", "*.txt"):
        facts = CHECKS["nccl1"].parse_output(text_of(path))
        assert any(fact.key.startswith("nccl.") for fact in facts), path.name


@pytest.mark.parametrize("path", files("nvidia-smi", "*.xml") + files("nvidia-smi", "q__*"), ids=lambda path: path.name)
def test_no_field_of_any_driver_branch_tells_of_trouble_unread(path: Path) -> None:
    """Every field is parsed or in HARMLESS; a new driver branch with more fields fails here for review."""
    assert not [fact.attrs for fact in CHECKS["smi"].parse_output(text_of(path)) if fact.key == "check.not_understood"]
