"""`rackmedic expect`: a number for people, a document for scripts, and refusals that name the option."""

import json
from pathlib import Path

import pytest

from kb.catalogues.accelerators import load_accelerators
from tests.support.terminal import rackmedic, rackmedic_process

JOB = ("job", "--sku", "a100-sxm-80", "--gpus", "288", "--params", "39B", "--seq", "2048", "--batch", "1152", "--tp", "8", "--pp", "2")
SUM = ("allreduce", "--gpus", "16", "--size", "8G")


def test_a_slow_job_is_a_number_with_an_interval_and_a_suspect() -> None:
    ran = rackmedic("expect", *JOB, "--seen", "30s", "--clock", "200")
    assert (ran.returncode, ran.stderr) == (0, "")
    for words in ("on 288 GPUs (tensor 8, pipeline 2, data 18), A100 SXM 80 GB", "expected: 10.2 s (8.54 s to 17.8 s)", "bound by compute",
                  "at an SM clock of 200 MHz of 1,410", "slow, 0.34 of the expected speed; suspect compute", "network", "beside the others"):  # fmt: skip
        assert words in " ".join(ran.stdout.split()), words


def test_the_document_for_scripts_has_the_promised_shape() -> None:
    document = json.loads(rackmedic("expect", *JOB, "--seen", "30s", "--clock", "200", "--json").stdout)
    assert document["schema"] == 1
    assert set(document) == {"schema", "gpu", "what", "expected", "rate", "parts", "pipeline", "bound", "peers", "at_clock", "seen"}
    assert document["expected"]["least"] < document["expected"]["seconds"] < document["expected"]["most"]
    assert {part["resource"] for part in document["parts"]} == {"compute", "memory", "nvlink", "network"}
    assert (document["seen"]["verdict"], document["seen"]["suspect"]) == ("slow", "compute")
    assert document["at_clock"]["usual_mhz"] == 1410
    assert "seen" not in json.loads(rackmedic("expect", *JOB, "--json").stdout)


def test_a_machines_profile_is_as_good_as_its_gpu_and_bandwidth_as_good_as_a_time() -> None:
    ran = rackmedic("expect", *SUM, "--sku", "dgx-h100-8", "--seen-gbs", "190", "--json")
    document = json.loads(ran.stdout)
    assert (document["gpu"], document["rate"]["unit"], document["seen"]["verdict"]) == ("h100-sxm", "GB/s", "slow")
    assert document["seen"]["seconds"] == pytest.approx((8 << 30) * 1.875 / 190e9, rel=1e-4)
    assert (
        json.loads(rackmedic("expect", *SUM, "--sku", "h100-sxm", "--seen-gbs", "450", "--json").stdout)["seen"]["verdict"] == "as expected"
    )


def test_measured_peers_stand_in_for_the_model() -> None:
    peers = [word for time in ("9.4ms", "9.5ms", "9.6ms") for word in ("--peer", time)]
    gemm = ("expect", "gemm", "--sku", "l4", "--m", "8192", "--n", "8192", "--k", "8192", "--seen", "40ms", *peers)
    assert "by 3 measured peers" in rackmedic(*gemm).stdout
    document = json.loads(rackmedic(*gemm, "--json").stdout)
    assert (document["peers"], document["expected"]["seconds"], document["seen"]["verdict"]) == (3, 0.0095, "slow")


def test_a_copy_below_its_link_is_slow() -> None:
    document = json.loads(rackmedic("expect", "copy", "--sku", "h100-sxm", "--size", "1G", "--seen-gbs", "12.4", "--json").stdout)
    assert (document["bound"], document["seen"]["suspect"], document["seen"]["verdict"]) == ("host link", "host link", "slow")


def test_the_gpus_are_listed_with_who_states_their_peaks() -> None:
    items = json.loads(rackmedic("expect", "gpus", "--json").stdout)["items"]
    assert [item["id"] for item in items] == list(load_accelerators())
    assert all(item["sources"][0].startswith("https://") for item in items)
    shown = rackmedic("expect", "gpus").stdout
    assert all(name in shown for name in load_accelerators())


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((*JOB[:3], "--gpus", "63", *JOB[5:]), "--gpus: 63 cannot be divided by tensor 8"),
        ((*JOB, "--tp", "7"), "--gpus: 288 cannot be divided by tensor 7"),
        ((*JOB, "--pp", "18", "--interleave", "9"), "--pp (pipeline):"),
        ((*JOB, "--params", "39Q"), "--params: '39Q' is no such amount; write it as 70B"),
        ((*JOB, "--seen", "soon"), "--seen: 'soon' is no such amount; write it as 12.3s"),
        ((*JOB, "--sku", "h900"), "--sku: there is no 'h900'; known: a100-sxm-80"),
        ((*JOB, "--precision", "fp4"), "--precision: 'fp4' is none of bf16, fp16, fp8, tf32"),
        ((*JOB, "--precision", "fp8"), "--precision: A100 SXM 80 GB has no matrix units for fp8"),
        ((*JOB, "--recompute", "some"), "--recompute: 'some' is none of none, selective, full"),
        ((*JOB, "--peer", "10s"), "--peer: 1 measured ones tell nothing; give at least 3"),
        ((*SUM, "--sku", "l40s"), "--network: servers with L40S differ"),
        ((*SUM, "--sku", "h100-sxm", "--seen", "1s", "--seen-gbs", "3"), "--seen and --seen-gbs: one of them"),
        ((*SUM, "--sku", "h100-sxm", "--seen-gbs", "0"), "--seen-gbs: 0 is no bandwidth"),
    ],
)
def test_what_cannot_be_is_bad_usage_by_the_name_of_its_option(words: tuple[str, ...], told: str) -> None:
    ran = rackmedic("expect", *words)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert told in ran.stderr
    assert ran.stderr.startswith("rackmedic: ")


@pytest.mark.parametrize("command", ["", "job", "allreduce", "gemm", "copy"])
def test_help_teaches_with_an_example(command: str) -> None:
    told = " ".join(rackmedic("expect", *filter(None, (command,)), "--help").stdout.split())
    assert f"Example: rackmedic expect {command or 'allreduce'} --sku" in told


def test_its_examples_run() -> None:
    for words in (
        "job --sku h100-sxm --gpus 8 --params 7B --seq 4096 --batch 64",
        "job --sku h100-sxm --gpus 64 --params 70B --seq 8192 --batch 1024 --tp 8 --pp 4 --seen 240s --clock 345",
        "allreduce --sku h100-sxm --gpus 16 --size 8G --seen-gbs 190",
        "gemm --sku h100-sxm --m 8192 --n 8192 --k 8192 --seen 9.6ms --clock 345",
        "copy --sku h100-sxm --size 1G --seen-gbs 12.4",
    ):
        assert rackmedic("expect", *words.split()).returncode == 0, words


def test_nothing_heavy_is_loaded_to_do_a_sum() -> None:
    ran = rackmedic_process("expect", "gemm", "--sku", "h100-sxm", "--m", "8192", "--n", "8192", "--k", "8192", "--json")
    assert (ran.returncode, json.loads(ran.stdout)["bound"]) == (0, "compute")


def test_a_site_asks_about_a_gpu_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "sku").mkdir()
    (tmp_path / "sku" / "ours.yaml").write_text(
        "name: ours\ntitle: ours\nproducts: [ACME G1]\ngpus: 8\n"
        "performance: {bf16: 500, memory: 3000, host: 63, rated_mhz: 1500, max_mhz: 1600, source: a letter}\n"
    )
    words = ("expect", "gemm", "--sku", "ours", "--m", "8192", "--n", "8192", "--k", "8192", "--json")
    document = json.loads(rackmedic(*words, environ={"RACKMEDIC_KB_DIR": str(tmp_path)}).stdout)
    assert (document["gpu"], document["rate"]["value"]) == ("ours", 400.0)
    assert rackmedic(*words).returncode == 2
