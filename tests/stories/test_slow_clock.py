"""The case of arXiv 2411.05349: one GPU among dozens of servers runs at 200 MHz instead of 1,410, and people only know
that training is slow.
"""

import json
from pathlib import Path

from tests.support.terminal import rackmedic

HOSTS = [f"gpu-{number:03}" for number in range(1, 25)]
CASE = f"""
profile: hgx-a100-8
nodes: [{", ".join(HOSTS)}]
ticket: {{text: "training on gpu-[001-024] is slow since this morning, a third of its usual speed"}}
faults: [{{id: G17, node: gpu-017, gpu: 3, args: {{mhz: 200}}}}]
"""
STEP = (
    "expect",
    "job",
    "--sku",
    "hgx-a100-8",
    "--gpus",
    "192",
    "--params",
    "39B",
    "--seq",
    "2048",
    "--batch",
    "768",
    "--tp",
    "8",
    "--pp",
    "2",
)


def test_from_it_is_slow_to_the_clock_that_is_as_it_was(tmp_path: Path) -> None:
    step = json.loads(rackmedic(*STEP, "--json").stdout)
    a_third = f"{3 * step['expected']['seconds']:.1f}s"
    slow = json.loads(rackmedic(*STEP, "--seen", a_third, "--json").stdout)
    assert (slow["seen"]["verdict"], slow["seen"]["suspect"]) == ("slow", "compute"), "slow is a number, and the number names a resource"

    file = tmp_path / "case.yaml"
    file.write_text(CASE)
    told = rackmedic("chat", "--sandbox", str(file), stdin="why?\n@priya approve 1\n/wait 3h\n")
    assert told.returncode == 0, told.stderr
    said = [" ".join(line.split()) for line in told.stdout.splitlines()]
    for line in (
        "GPU clocks locked low (gpu-017/gpu3)",
        "GPU.CONFIG.Clocks_Locked_Low on gpu-017/gpu3 (97 % sure)",
        "gpu-017 · nvidia-smi · read just now: 35.4 TFLOP/s of 250 expected at 1410 MHz: SM clock of gpu3 200 MHz",
    ):
        assert line in said, line
    decided = [line.split(":")[0] for line in said if line.startswith("[1] ")]
    asked = "[1] ✋ Approve? Reset locked and application clocks of the GPU at 0000"
    assert decided == [asked, "[1] 🔧 Running", "[1] ✅ Passes now", "[1] ✅ Cured"]

    with_clock = json.loads(rackmedic(*STEP, "--seen", a_third, "--clock", "200", "--json").stdout)
    assert "at an SM clock of 200 MHz" in with_clock["seen"]["because"]
    mended = json.loads(rackmedic(*STEP, "--seen", f"{step['expected']['seconds']:.1f}s", "--clock", "1410", "--json").stdout)
    assert mended["seen"]["verdict"] == "as expected"
