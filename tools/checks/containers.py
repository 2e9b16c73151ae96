"""The container engine and the GPU containers on a node. Text from inside a container is its owner's and is no evidence against a machine.

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
_HEAD_PATTERN = re.compile(r"== container ([0-9a-f]{12,64})\s*$")
_STATUS_PATTERN = re.compile(r"== status (\d{1,3})\s*$")
_GPU_PATTERN = re.compile(r"(?m)^GPU \d{1,3}: ")
_NVML_ERRORS: tuple[tuple[str, str], ...] = (
    ("unknown_error", "Failed to initialize NVML: Unknown Error"),
    ("driver_library_mismatch", "Driver/library version mismatch"),
    ("no_devices", "No devices were found"),
)


def is_info(text: str) -> bool:
    return (text.lstrip().startswith("{") and '"Runtimes"' in text and '"ID"' in text[:2000]) or _NO_ENGINE_PATTERN.search(
        text[:4096]
    ) is not None


def parse_info(text: str) -> Sequence[Fact]:
    """Return runtimes and cgroup driver. Without its daemon the client exits 0 with the error in `ServerErrors`."""
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
    return facts + ([Fact(CHECK, "docker.cgroup_driver", driver, line=f"CgroupDriver {driver}")] if driver else [])


def is_list(text: str) -> bool:
    return text.lstrip().startswith("{") and '"Names"' in text[:4096]


def parse_list(text: str) -> Sequence[Fact]:
    """Return only the status; inspecting reports the rest."""
    rows = list(parse_json_lines(text))
    if not rows:
        raise Unreadable("no whole JSON object")
    return [
        _build_status_fact(str(row.get("ID", "")), str(row.get("State", "")), str(row.get("Names", "")), {"image": row.get("Image")})
        for row in rows[:64]
    ]


def is_inspected(text: str) -> bool:
    return text.lstrip().startswith("{") and '"shm"' in text[:4096] and '"runtime"' in text[:4096]


def parse_inspected(text: str) -> Sequence[Fact]:
    rows = list(parse_json_lines(text))
    if not rows:
        raise Unreadable("no whole JSON object")
    return [fact for row in rows[:64] if _has_gpus(row) for fact in _build_container_facts(row)]


def _has_gpus(row: Mapping[str, Any]) -> bool:
    return "nvidia" in str(row.get("runtime")) or bool(row.get("requests")) or "/dev/nvidia" in json.dumps(row.get("devices"))


def _build_container_facts(row: Mapping[str, Any]) -> Iterator[Fact]:
    name, shared = str(row.get("id", "")), row.get("shm")
    more = {
        "image": row.get("image"),
        "exit": row.get("exit"),
        "oom": row.get("oom"),
        "started": row.get("started"),
        "text": row.get("error"),
    }
    yield _build_status_fact(name, str(row.get("status", "")), str(row.get("name", "")), more)
    own = str(row.get("ipc", "")) in ("", "private", "shareable")
    if own and isinstance(shared, int) and not isinstance(shared, bool) and 0 < shared < 1 << 62:
        yield Fact(
            CHECK,
            "container.shm_bytes",
            shared,
            _shorten_container_id(name),
            unit="B",
            line=f"{_shorten_container_id(name)}: ShmSize {shared}",
        )
    cuda = next(
        (v for v in (row.get("cuda"), *_as_list(row.get("cuda_env"))) if isinstance(v, str) and re.match(r"\d{1,2}\.\d{1,2}", v)), None
    )
    if cuda:
        yield Fact(
            CHECK,
            "container.cuda",
            cuda[:20],
            _shorten_container_id(name),
            line=f"{_shorten_container_id(name)}: image {str(row.get('image'))[:120]}, CUDA {cuda[:20]}",
        )


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _build_status_fact(name: str, status: str, called: str, more: Mapping[str, Any]) -> Fact:
    attributes = {
        key: value if isinstance(value, bool | int) else str(value)[:200] for key, value in more.items() if value not in (None, "", False)
    }
    called = called.lstrip("/")[:100]
    line = f"{_shorten_container_id(name)} {called}: {status}"[:300]
    return Fact(
        CHECK, "container.status", status[:20] or "unknown", _shorten_container_id(name), line=line, attrs={"name": called, **attributes}
    )


def _shorten_container_id(name: str) -> str:
    return name[:12] if re.fullmatch(r"[0-9a-f]{12,64}", name) else "container"


def split_container_answers(text: str) -> Iterator[tuple[str, str, int | None]]:
    """Yield (container, text, exit status or None) from the kit's frames."""
    name, lines = "", list[str]()
    for line in text.split("\n"):  # the kit ends lines with \n only
        if head := _HEAD_PATTERN.match(line):
            if name:
                yield name, "\n".join(lines), None
            name, lines = head[1], []
        elif name and (status := _STATUS_PATTERN.match(line)):
            yield name, "\n".join(lines), int(status[1])
            name, lines = "", []
        elif name:
            lines.append(line)
    if name:
        yield name, "\n".join(lines), None


def build_frame_sniffer(inside: Callable[[str], bool]) -> Callable[[str], bool]:
    def sniff(text: str) -> bool:
        return _HEAD_PATTERN.match(text.lstrip("\n").split("\n", 1)[0]) is not None and inside(text[:65536])

    return sniff


def parse_devices(text: str) -> Sequence[Fact]:
    """Return whether `nvidia-smi -L` finds GPUs inside the containers.

    An image without nvidia-smi gives no fact; a container not asked or too slow is unobserved.
    """
    return [fact for name, answer, status in split_container_answers(text) if (fact := _build_nvml_fact(name, answer.strip(), status))]


def _build_nvml_fact(name: str, said: str, status: int | None) -> Fact | None:
    line = (split_lines(said) or [""])[0][:200]
    if value := _classify_nvml_output(said, status):
        return Fact(
            *(CHECK, "container.nvml", value, _shorten_container_id(name)), line=line or f"exit status {status}", attrs={"id": name}
        )
    if status is None:
        reason = line or "not asked: one look enters four containers"
        return Fact(CHECK, "container.nvml", device=_shorten_container_id(name), status=Status.UNREADABLE, line=reason, attrs={"id": name})
    if status in _TIMEOUT_STATUSES:
        return Fact(
            CHECK, "container.nvml", device=_shorten_container_id(name), status=Status.TIMEOUT, line="no answer in 20 s", attrs={"id": name}
        )
    return None


_TIMEOUT_STATUSES = (124, 137)  # of `timeout` when it ended the command


def _classify_nvml_output(said: str, status: int | None) -> str:
    error_value = next((value for value, words in _NVML_ERRORS if words in said), "")
    if error_value:
        return error_value
    if status is None or status in (126, 127, *_TIMEOUT_STATUSES) or "executable file not found" in said or "no such file" in said.lower():
        return ""
    return "ok" if status == 0 and _GPU_PATTERN.search(said) else "failed"


def drop_repeated_statuses(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Drop the list's status of inspected containers."""
    reported_devices = {
        fact.device for fact in facts if fact.check == CHECK and (fact.key == "container.shm_bytes" or "started" in fact.attrs)
    }
    return [f for f in facts if f.key != "container.status" or "started" in f.attrs or f.device not in reported_devices]


CHECKS = (
    Check(
        id="docker",
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
