"""Silent data corruption checks: repeated products per GPU, sums over all GPUs, a small training loop."""

from tests.support.samples_exclusive import BURN, NCCL_WRONG, STEP, STEP_NO_TORCH
from tools.checks import CHECKS
from tools.fact import Status

RUN, LOOP = CHECKS["sdc"], CHECKS["e2e"]


def test_products_that_differ_are_told_by_gpu() -> None:
    assert {f.device: f.value for f in RUN.parse_output(BURN) if f.key == "sdc.mismatches"} == {"gpu0": 0, "gpu1": 5, "gpu2": 0}


def test_wrong_sums_are_the_hosts() -> None:
    assert [(f.check, f.key, f.value) for f in RUN.parse_output(NCCL_WRONG)] == [("sdc", "nccl.wrong", 2)]


def test_sums_that_were_cut_off_are_no_proof_of_right_ones() -> None:
    text = NCCL_WRONG.replace("      2   4301", "      0   4301").partition("# Out")[0]
    assert all(f.status is Status.UNREADABLE for f in RUN.parse_output(text))


def test_a_loss_that_the_others_do_not_share_has_diverged() -> None:
    facts = LOOP.parse_output(STEP)
    assert {f.device: f.value for f in facts if f.key == "step.diverged"} == {"gpu0": False, "gpu1": False, "gpu2": False, "gpu3": True}
    assert {f.device: f.value for f in facts if f.key == "step.share"}["gpu2"] == 2.476
    (data,) = (f.value for f in facts if f.key == "step.data_share")
    assert data == 0.185


def test_two_gpus_that_disagree_accuse_neither() -> None:
    lines = STEP.splitlines(keepends=True)
    assert not [f for f in LOOP.parse_output(lines[1] + lines[4]) if f.key == "step.diverged"]


def test_without_pytorch_it_was_not_run() -> None:
    (fact,) = LOOP.parse_output(STEP_NO_TORCH)
    assert (fact.key, fact.value) == ("check.skipped", "no_tool")
    assert "PyTorch" in str(fact.attrs["text"])
