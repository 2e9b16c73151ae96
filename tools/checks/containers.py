"""The container engine and the GPU containers on a node. Text from inside a container is its owner's and is not evidence against a machine.

{"Runtimes":{"nvidia":{},"runc":{}},"CgroupDriver":"systemd"}
{"id":"3f2a…","name":"/job-812","runtime":"nvidia","status":"running","shm":67108864,"cuda":"12.4"}
== container 3f2a…
Failed to initialize NVML: Unknown Error
== status 255
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kb.needle_search import split_lines
from tools.checks.check_types import Check, Command, Format, Unreadable
from tools.checks.output_values import parse_json_lines
from tools.fact import Fact, Status, build_unobserved_fact

CHECK = "docker"
_NO_ENGINE_PATTERN = re.compile(
    r"Cannot connect to the Docker daemon.{0,120}|Is the docker daemon running|failed to connect to the docker API.{0,120}"
)
# unobserved, not a fault: docker may be switched off on a Slurm node
NOT_RUNNING = "docker is installed and not running: its daemon does not answer, so nobody knows of any container"
_HEADER_PATTERN = re.compile(r"== container ([0-9a-f]{12,64})\s*$")
_STATUS_PATTERN = re.compile(r"== status (\d{1,3})\s*$")
_GPU_PATTERN = re.compile(r"(?m)^GPU \d{1,3}: ")
_NVML_ERRORS: tuple[tuple[str, str], ...] = (
    ("unknown_error", "Failed to initialize NVML: Unknown Error"),
    ("driver_library_mismatch", "Driver/library version mismatch"),
    ("no_devices", "No devices were found"),
)
_TIMEOUT_STATUSES = (124, 137)  # of `timeout` when it ended the command
_NOT_STARTED_STATUSES = (126, 127)  # of a shell that cannot run the command or does not find it
_MAX_CONTAINERS = 64


def is_info(text: str) -> bool:
    is_json_info = text.lstrip().startswith("{") and '"Runtimes"' in text and '"ID"' in text[:2000]
    return is_json_info or _NO_ENGINE_PATTERN.search(text[:4096]) is not None


def parse_info(text: str) -> Sequence[Fact]:
    """Return the runtimes and the cgroup driver.

    If the daemon does not answer, the client exits with 0 and prints the error in `ServerErrors`.
    """
    info = next(parse_json_lines(text), None)
    runtimes = info.get("Runtimes") if info else None
    if not isinstance(runtimes, Mapping) and _NO_ENGINE_PATTERN.search(text):
        return [build_unobserved_fact(CHECK, Status.UNREACHABLE, NOT_RUNNING)]
    if info is None:
        raise Unreadable("no whole JSON object")
    if not isinstance(runtimes, Mapping):
        raise Unreadable("Runtimes is no object")
    names = sorted(str(name)[:60] for name in runtimes)[:20]
    devices = info.get("CDISpecDirs")
    line = f"Runtimes: {' '.join(names)}"[:300]
    facts = [
        Fact(CHECK, "docker.runtimes", names, line=line),
        Fact(CHECK, "docker.nvidia_runtime", any("nvidia" in name for name in names), line=line, attrs={"cdi": bool(devices)}),
    ]
    driver = str(info.get("CgroupDriver") or "")[:30]
    if driver:
        facts.append(Fact(CHECK, "docker.cgroup_driver", driver, line=f"CgroupDriver {driver}"))
    return facts


def is_list(text: str) -> bool:
    return text.lstrip().startswith("{") and '"Names"' in text[:4096]


def parse_list(text: str) -> Sequence[Fact]:
    """Return the containers' status only; their inspection reports the rest."""
    containers = list(parse_json_lines(text))
    if not containers:
        raise Unreadable("no whole JSON object")
    facts = []
    for container in containers[:_MAX_CONTAINERS]:
        container_id, status, name = (str(container.get(field, "")) for field in ("ID", "State", "Names"))
        facts.append(_build_status_fact(container_id, status, name, {"image": container.get("Image")}))
    return facts


def is_inspected(text: str) -> bool:
    return text.lstrip().startswith("{") and '"shm"' in text[:4096] and '"runtime"' in text[:4096]


def parse_inspected(text: str) -> Sequence[Fact]:
    containers = list(parse_json_lines(text))
    if not containers:
        raise Unreadable("no whole JSON object")
    gpu_containers = [container for container in containers[:_MAX_CONTAINERS] if _has_gpus(container)]
    return [fact for container in gpu_containers for fact in _build_container_facts(container)]


def _has_gpus(container: Mapping[str, Any]) -> bool:
    if "nvidia" in str(container.get("runtime")) or container.get("requests"):
        return True
    return "/dev/nvidia" in json.dumps(container.get("devices"))


def _build_container_facts(container: Mapping[str, Any]) -> Iterator[Fact]:
    container_id, shared_bytes = str(container.get("id", "")), container.get("shm")
    device = _shorten_container_id(container_id)
    details = {
        "image": container.get("image"),
        "exit": container.get("exit"),
        "oom": container.get("oom"),
        "started": container.get("started"),
        "text": container.get("error"),
    }
    yield _build_status_fact(container_id, str(container.get("status", "")), str(container.get("name", "")), details)
    has_own_shm = str(container.get("ipc", "")) in ("", "private", "shareable")
    if has_own_shm and isinstance(shared_bytes, int) and not isinstance(shared_bytes, bool) and 0 < shared_bytes < 1 << 62:
        yield Fact(CHECK, "container.shm_bytes", shared_bytes, device, unit="B", line=f"{device}: ShmSize {shared_bytes}")
    if cuda := _find_cuda_version(container):
        line = f"{device}: image {str(container.get('image'))[:120]}, CUDA {cuda[:20]}"
        yield Fact(CHECK, "container.cuda", cuda[:20], device, line=line)


def _find_cuda_version(container: Mapping[str, Any]) -> str:
    """Return the image's label, else the container's environment variable; an empty text if neither is a version."""
    environment = container.get("cuda_env")
    candidates = [container.get("cuda"), *(environment if isinstance(environment, list) else [])]
    return next((text for text in candidates if isinstance(text, str) and re.match(r"\d{1,2}\.\d{1,2}", text)), "")


def _build_status_fact(container_id: str, status: str, name: str, details: Mapping[str, Any]) -> Fact:
    device, name = _shorten_container_id(container_id), name.lstrip("/")[:100]
    attrs: dict[str, Any] = {"name": name}
    for key, value in details.items():
        if value not in (None, "", False):
            attrs[key] = value if isinstance(value, bool | int) else str(value)[:200]
    line = f"{device} {name}: {status}"[:300]
    return Fact(CHECK, "container.status", status[:20] or "unknown", device, line=line, attrs=attrs)


def _shorten_container_id(container_id: str) -> str:
    return container_id[:12] if re.fullmatch(r"[0-9a-f]{12,64}", container_id) else "container"


def split_container_answers(text: str) -> Iterator[tuple[str, str, int | None]]:
    """Yield each container's id, its output and its exit status. The status is None if the command did not end."""
    container_id, lines = "", list[str]()
    for line in text.split("\n"):  # the kit ends lines with \n only
        if header := _HEADER_PATTERN.match(line):
            if container_id:
                yield container_id, "\n".join(lines), None
            container_id, lines = header[1], []
        elif container_id and (status := _STATUS_PATTERN.match(line)):
            yield container_id, "\n".join(lines), int(status[1])
            container_id, lines = "", []
        elif container_id:
            lines.append(line)
    if container_id:
        yield container_id, "\n".join(lines), None


def build_frame_sniffer(is_inner_format: Callable[[str], bool]) -> Callable[[str], bool]:
    """Recognise an output that is made of container frames and has the inner format."""

    def is_framed_format(text: str) -> bool:
        first_line = text.lstrip("\n").split("\n", 1)[0]
        return _HEADER_PATTERN.match(first_line) is not None and is_inner_format(text[:65536])

    return is_framed_format


def parse_devices(text: str) -> Sequence[Fact]:
    """Return whether `nvidia-smi -L` finds GPUs inside the containers.

    An image without nvidia-smi gives no fact. A container that was not asked or did not answer in time is unobserved.
    """
    facts = [_build_nvml_fact(container_id, output.strip(), status) for container_id, output, status in split_container_answers(text)]
    return [fact for fact in facts if fact]


def _build_nvml_fact(container_id: str, output: str, status: int | None) -> Fact | None:
    device, attrs = _shorten_container_id(container_id), {"id": container_id}
    first_line = (split_lines(output) or [""])[0][:200]
    if value := _classify_nvml_output(output, status):
        return Fact(CHECK, "container.nvml", value, device, line=first_line or f"exit status {status}", attrs=attrs)
    if status is None:
        reason = first_line or "not asked: one look enters four containers"
        return Fact(CHECK, "container.nvml", device=device, status=Status.UNREADABLE, line=reason, attrs=attrs)
    if status in _TIMEOUT_STATUSES:
        return Fact(CHECK, "container.nvml", device=device, status=Status.TIMEOUT, line="no answer in 20 s", attrs=attrs)
    return None


def _classify_nvml_output(output: str, status: int | None) -> str:
    """Return the fact's value; an empty text if nvidia-smi did not run to its end."""
    error_value = next((value for value, words in _NVML_ERRORS if words in output), "")
    if error_value:
        return error_value
    if status is None or status in _TIMEOUT_STATUSES or status in _NOT_STARTED_STATUSES:
        return ""
    if "executable file not found" in output or "no such file" in output.lower():
        return ""
    return "ok" if status == 0 and _GPU_PATTERN.search(output) else "failed"


def drop_repeated_statuses(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Drop the status that `docker ps` printed of a container if the inspection reported it as well."""
    inspected_devices = {
        fact.device for fact in facts if fact.check == CHECK and (fact.key == "container.shm_bytes" or "started" in fact.attrs)
    }
    return [fact for fact in facts if fact.key != "container.status" or "started" in fact.attrs or fact.device not in inspected_devices]


CHECKS = (
    Check(
        id=CHECK,
        asks="Does the container engine know NVIDIA GPUs, and do the GPU containers have theirs and enough shared memory?",
        commands=(
            Command("info", ("docker", "info", "--format", "{{json .}}"), privileged=True, optional=True),
            Command("list", ("docker", "ps", "--no-trunc", "--format", "{{json .}}"), privileged=True, optional=True),
            Command("inspected", ("rackmedic-look", "containers"), privileged=True, optional=True),
            Command("devices", ("rackmedic-look", "inside", "nvidia-smi", "-L"), privileged=True, optional=True),
        ),
        formats=(
            Format("docker info", is_info, parse_info),
            Format("docker ps", is_list, parse_list),
            Format("containers", is_inspected, parse_inspected),
            Format("nvidia-smi in containers", build_frame_sniffer(lambda text: True), parse_devices),
        ),
        establishes=(
            *("docker.runtimes", "docker.nvidia_runtime", "docker.cgroup_driver"),
            *("container.status", "container.shm_bytes", "container.cuda", "container.nvml"),
        ),
        seconds=4.0,
        partial=True,
        damage="ignore",
        timeout=30.0,
        without="docker.runtimes",
        settle=drop_repeated_statuses,
    ),
)
