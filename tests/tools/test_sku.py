"""SKU profiles: sourced data, strictly validated."""

from pathlib import Path

import pytest

from kb.fact_keys import find_key
from tools.fact import Fact
from tools.inventory.sku import BadSku, guess_sku, load_skus

SKUS = load_skus()


def test_the_built_in_profiles_are_whole_and_every_expectation_has_a_source() -> None:
    eights = {"dgx-h100-8", "hgx-a100-8", "hgx-a100-40-8", "hgx-a800-8", "hgx-h800-8", "hgx-h200-8", "hgx-b200-8", "pcie-l40s-8"}
    assert eights | {"dgx1-v100-8", "dgx2-v100-16", "gb200-nvl72-tray", "gb300-nvl72-tray", "pcie-a100-8"} <= set(SKUS)
    for sku in SKUS.values():
        assert set(sku.sources) <= set(sku.expect)
        assert all(sku.sources.values())
        assert not sku.bus or len(sku.bus) == sku.gpus
        for key, value in sku.expect.items():
            row = find_key(key)
            assert row is not None
            assert value is None or type(value).__name__ == row.kind, (sku.name, key)


def test_the_bus_order_is_the_machine_s() -> None:
    assert [address.split(":")[1] for address in SKUS["dgx-h100-8"].bus] == ["19", "3b", "4c", "5d", "9b", "bb", "cb", "db"]
    assert [address.split(":")[1] for address in SKUS["hgx-a100-8"].bus] == ["07", "0f", "47", "4e", "87", "90", "b7", "bd"]
    assert [address.split(":")[1] for address in SKUS["pcie-l40s-8"].bus] == ["01", "21", "41", "61", "81", "a1", "c1", "e1"]


def test_a_device_s_own_row_wins_and_nothing_is_guessed() -> None:
    dgx = SKUS["dgx-h100-8"]
    assert dgx.get_expected("ib.rate", "mlx5_3") == 400
    assert dgx.get_expected("ib.rate", "mlx5_1") is None
    assert dgx.get_expected("module.loaded", "nvidia_peermem") is True
    assert dgx.get_expected("module.loaded", "gdrdrv") is None
    assert dgx.get_expected("gpu.count", None) == 8
    assert dgx.get_expected("gpu.temp.core", "gpu0") is None
    assert SKUS["pcie-l40s-8"].get_expected("service.state", "nvidia-fabricmanager") == "inactive"


def test_a_machine_is_recognised_by_its_product_and_its_bus() -> None:
    def host(product: str, *buses: str) -> list[Fact]:
        return [Fact("smi", "gpu.product", product, f"gpu{n}") for n in range(8)] + [
            Fact("smi", "gpu.bdf", f"0000:{bus}:00.0", f"gpu{n}") for n, bus in enumerate(buses)
        ]

    assert guess_sku(host("NVIDIA H100 80GB HBM3", "19", "3b"), SKUS) == SKUS["dgx-h100-8"]
    assert guess_sku(host("NVIDIA A100-SXM4-40GB"), SKUS) == SKUS["hgx-a100-40-8"]
    assert guess_sku(host("NVIDIA A800-SXM4-80GB"), SKUS) == SKUS["hgx-a800-8"]
    assert guess_sku(host("NVIDIA H800"), SKUS) == SKUS["hgx-h800-8"]
    assert guess_sku(host("Tesla V100-SXM2-32GB"), SKUS) == SKUS["dgx1-v100-8"]
    assert guess_sku(host("NVIDIA GeForce RTX 4090"), SKUS) is None
    assert guess_sku([], SKUS) is None


def test_a_machine_with_other_numbers_of_the_same_gpus_is_not_called_broken() -> None:
    def of(product: str, count: int, *buses: str) -> str:
        facts = [Fact("smi", "gpu.product", product, f"gpu{n}") for n in range(count)]
        facts += [Fact("smi", "gpu.bdf", f"0000:{bus}:00.0", f"gpu{n}") for n, bus in enumerate(buses)]
        sku = guess_sku(facts, SKUS)
        return sku.name if sku else ""

    assert of("NVIDIA H100 80GB HBM3", 7) == of("NVIDIA H100 80GB HBM3", 5) == "dgx-h100-8", "three lost GPUs are lost GPUs"
    assert of("NVIDIA H100 80GB HBM3", 4) == of("NVIDIA H100 80GB HBM3", 1) == "", "a virtual machine has a part of the GPUs"
    assert of("NVIDIA H100 80GB HBM3", 2, "19", "db") == "dgx-h100-8", "they sit where this machine's do"
    assert of("NVIDIA H100 80GB HBM3", 16) == ""
    assert of("NVIDIA GB200", 4) == of("NVIDIA GB200", 3) == "gb200-nvl72-tray"


def test_cut_down_parts_have_fewer_links_and_only_published_figures() -> None:
    assert SKUS["hgx-a800-8"].get_expected("nvlink.active", "gpu0") == SKUS["hgx-h800-8"].get_expected("nvlink.active", "gpu0") == 8
    for name in ("hgx-a800-8", "hgx-h800-8", "gb200-nvl72-tray", "gb300-nvl72-tray", "dgx2-v100-16", "pcie-a100-8"):
        assert SKUS[name].get_expected("nccl.busbw_max", None) is None, name
    assert SKUS["gb200-nvl72-tray"].get_expected("gpu.count", None) == 4
    assert SKUS["gb200-nvl72-tray"].get_expected("service.state", "nvidia-fabricmanager") is None
    assert SKUS["hgx-a100-40-8"].get_expected("gpu.clock.app", "gpu0") == 1095


def test_a_site_s_profile_replaces_the_built_in_one(tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(
        "name: dgx-h100-8\ntitle: ours\nproducts: [NVIDIA H100*]\ngpus: 4\nexpect: [{key: ib.rate, value: 200, source: our order}]\n"
    )
    sku = load_skus(tmp_path)["dgx-h100-8"]
    assert (sku.title, sku.gpus, sku.get_expected("ib.rate", None)) == ("ours", 4, 200)


def test_all_problems_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "name: a\nbus: [nowhere]\nexpect: [{key: gpu.nonsense, value: 1, source: s}, {key: ib.rate}, {key: ib.rate, value: 1, source: a, b: c}]\ncolour: red\n"
    )
    (tmp_path / "b.yaml").write_text("[")
    (tmp_path / "c.yaml").write_text("just text")
    with pytest.raises(BadSku) as refused:
        load_skus(tmp_path)
    for part in (
        "'nowhere' is not",
        "gpu.nonsense",
        "{'key': 'ib.rate'} needs key, value and source",
        "'b': 'c'} needs key, value and source, and nothing else",
        "'colour'",
        "title is missing",
        "b.yaml",
        "expected a mapping",
    ):
        assert part in str(refused.value), part


OWN = """
name: ours
title: Eight of a GPU that nobody else has
products: ["ACME G1"]
gpus: 8
performance: {bf16: 500, memory: 3000, host: 63, nvlink: 300, domain: 8, network: 400, rated_mhz: 1500, max_mhz: 1600, source: "https://acme.example/g1"}
"""


def test_a_site_describes_a_gpu_that_the_catalogue_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "ours.yaml").write_text(OWN)
    gpu = load_skus(tmp_path)["ours"].accelerator
    assert gpu is not None
    assert (gpu.get_peak_flops("bf16"), gpu.get_peak_flops("fp8"), gpu.nvlink, gpu.network, gpu.node) == (5e14, None, 3e11, 5e10, 8)
    assert gpu.get_clock_share(750) == 0.5
    assert SKUS["dgx-h100-8"].accelerator is None, "the catalogue describes it"


@pytest.mark.parametrize(
    ("instead", "told"),
    [
        ("bf16: 500, ", "needs the rate of one of"),
        ("domain: 8, ", "go together"),
        ("memory: 3000, ", "memory"),
        ("rated_mhz: 1500, ", "rated_mhz"),
    ],
)
def test_half_a_gpu_is_refused_with_what_is_missing(tmp_path: Path, instead: str, told: str) -> None:
    (tmp_path / "ours.yaml").write_text(OWN.replace(instead, ""))
    with pytest.raises(BadSku, match=told):
        load_skus(tmp_path)
