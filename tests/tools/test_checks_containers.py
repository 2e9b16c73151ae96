"""The container engine, GPU containers, and the versions of software in them."""

import ast
import json
import subprocess
import sys

import pytest

from graph.engine.derived_facts import can_run_build, find_unfit_images, find_wrong_clocks
from tests.support import samples_checks as samples
from tests.support.clock import PATIENCE
from tests.support.fakes_graph import fact
from tests.tools.test_checks_surroundings import read, values
from tools.checks.versions import PROBE
from tools.fact import Fact, Status

NOBODY = "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"
SHORT = samples.CONTAINER[:12]


def test_an_engine_tells_whether_it_knows_nvidia() -> None:
    assert values(read("docker", samples.DOCKER_INFO))[("docker.nvidia_runtime", None)] is True
    without = samples.DOCKER_INFO.replace('"nvidia": {}, ', "")
    assert values(read("docker", without))[("docker.nvidia_runtime", None)] is False


@pytest.mark.parametrize(
    "text",
    [
        f"{NOBODY}\n",
        f'{{"ServerErrors":["{NOBODY}"],"ClientInfo":{{"Debug":false,"Context":"default","Plugins":[],"Warnings":null}}}}\n',
        f'{{"ID":"","Containers":0,"Runtimes":null,"ServerErrors":["{NOBODY}"],"ClientInfo":{{"Debug":false}}}}\n',
        "failed to connect to the docker API at unix:///var/run/docker.sock; check if the path is correct and if the daemon is running\n",
    ],
    ids=["docker ps", "docker info 20.10 as JSON", "docker info with empty fields", "docker 28"],
)
def test_a_client_whose_daemon_does_not_run_has_looked_at_nothing(text: str) -> None:
    (found,) = read("docker", text)
    assert (found.key, found.status) == ("", Status.UNREACHABLE)
    assert "not running" in found.line


def test_containers_without_gpus_are_ignored() -> None:
    found = read("docker", samples.DOCKER_INSPECT)
    assert {row.device for row in found} == {SHORT}
    assert values(found)[("container.shm_bytes", SHORT)] == 64 << 20
    assert values(found)[("container.cuda", SHORT)] == "12.8.1"
    assert found[0].attrs["oom"] is True


def test_shared_memory_of_the_host_is_not_the_containers() -> None:
    found = values(read("docker", samples.DOCKER_INSPECT.replace('"ipc":"private"', '"ipc":"host"')))
    assert ("container.shm_bytes", SHORT) not in found


def test_a_container_that_lost_its_gpus_is_told_from_one_that_has_them() -> None:
    assert values(read("docker", samples.INSIDE)) == {
        ("container.nvml", SHORT): "unknown_error",
        ("container.nvml", samples.CONTAINER[::-1][:12]): "ok",
    }


def test_an_image_without_the_tool_says_nothing_of_its_gpus() -> None:
    text = f'== container {samples.CONTAINER}\nexec: "nvidia-smi": executable file not found in $PATH\n\n== status 127\n'
    assert not values(read("docker", text))


def test_the_question_to_python_is_one_fixed_program_that_answers_without_pytorch() -> None:
    ast.parse(PROBE)
    said = subprocess.run([sys.executable, "-I", "-c", PROBE], capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
    assert json.loads(said)["rackmedic"] == "vers"
    (found,) = read("vers", said)
    assert found.status is Status.ABSENT


def test_versions_of_an_image_count_before_those_of_the_host() -> None:
    found = read("vers", samples.VERSIONS, samples.IMAGE_VERSIONS)
    assert {row.device for row in found} == {SHORT}
    assert values(found)[("vers.nccl", SHORT)] == "2.7.8"
    assert values(read("vers", samples.VERSIONS))[("vers.nccl", None)] == "2.20.5"


def test_another_cudnn_than_pytorch_was_built_with_is_told_with_both() -> None:
    found = next(row for row in read("vers", samples.IMAGE_VERSIONS) if row.key == "vers.cudnn_mismatch")
    assert (found.value, found.attrs["built"]) == (True, "9.1.0")
    assert values(read("vers", samples.IMAGE_VERSIONS))[("vers.cudnn", SHORT)] == "8.9.2"


def test_an_extension_built_for_another_pytorch_is_told() -> None:
    found = next(row for row in read("vers", samples.VERSIONS) if row.key == "vers.extension_mismatch")
    assert found.attrs == {"built_for": "2.1", "torch": "2.3.1+cu121"}
    fits = samples.VERSIONS.replace("torch2.1", "torch2.3")
    assert not [row for row in read("vers", fits) if row.key == "vers.extension_mismatch"]


def derived(*facts: Fact) -> dict[str, object]:
    return {row.key: row.value for row in find_unfit_images(facts)}


def test_an_image_newer_than_the_driver_is_told_and_a_newer_minor_marked_as_such() -> None:
    driver = fact("n1", "smi", "driver.cuda_version", "12.4")
    (minor,) = find_unfit_images([driver, fact("n1", "vers", "vers.cuda", "12.8", "c")])
    (major,) = find_unfit_images([driver, fact("n1", "vers", "vers.cuda", "13.0", "c")])
    assert (minor.value, minor.attrs["major"], major.attrs["major"]) == ("12.8", False, True)
    assert not derived(driver, fact("n1", "vers", "vers.cuda", "12.4", "c"))
    assert not derived(driver, fact("n2", "vers", "vers.cuda", "13.0", "c"))


def test_a_build_runs_on_later_minors_of_its_major_and_intermediate_code_on_all_later() -> None:
    gpu = fact("n1", "smi", "gpu.product", "NVIDIA H100 80GB HBM3", "gpu0")

    def missing(*archs: str) -> bool:
        return "vers.arch_missing" in derived(gpu, fact("n1", "vers", "vers.archs", list(archs)))

    assert missing("sm_70", "sm_75", "sm_80")
    assert missing("sm_100", "compute_90a") is False
    assert not missing("sm_80", "compute_80")
    assert not missing("sm_90")
    assert not derived(fact("n1", "smi", "gpu.product", "Some New GPU", "gpu0"), fact("n1", "vers", "vers.archs", ["sm_70"]))


def test_a_build_for_one_architecture_or_one_family_runs_there_alone() -> None:
    """NVIDIA's compiler documentation: `a` code runs on exactly its capability, `f` code on its family, neither on what comes later."""
    runs = {
        ("sm_100a", 100),
        ("compute_100a", 100),
        ("sm_100f", 100),
        ("sm_100f", 103),
        ("compute_100f", 100),
        ("compute_100f", 103),
        ("sm_90a", 90),
    }
    for arch in ("sm_100a", "compute_100a", "sm_100f", "compute_100f", "sm_90a"):
        for capability in (90, 100, 103, 120):
            assert can_run_build(arch, capability) == ((arch, capability) in runs), (arch, capability)


def test_a_clock_without_a_source_is_compared_with_ours() -> None:
    clock = fact("n1", "time", "time.clock", 1000.0)
    assert clock.time
    (off,) = find_wrong_clocks([clock])
    assert off.value == round(1000.0 - clock.time.timestamp(), 1)
    assert not find_wrong_clocks([clock, fact("n1", "time", "time.offset", 0.001)])


def test_an_nccl_that_is_known_to_crash_is_told_with_the_source() -> None:
    (found,) = [row for row in read("vers", samples.VERSIONS.replace("[2, 20, 5]", "[2, 27, 7]")) if row.key == "vers.nccl_known_bad"]
    assert found.value == "crash"
    assert found.attrs["version"] == "2.27.7"
    assert found.attrs["source"] in found.line
    assert not [row for row in read("vers", samples.VERSIONS.replace("[2, 20, 5]", "[2, 21, 5]")) if row.key == "vers.nccl_known_bad"]
