"""Framework versions in the job's containers and on the host: a fixed Python program answers with one JSON line.

{"rackmedic":"vers","torch":"2.3.1+cu121","cuda":"12.1","cudnn":90100,"nccl":[2,20,5],"archs":"sm_80 sm_90"}
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kb.catalogues.nccl import find_known_bad
from tools.checks.check_types import Check, Command, Format
from tools.checks.containers import split_container_answers
from tools.checks.output_values import parse_json_lines
from tools.fact import Fact, Status

CHECK = "vers"
# Fixed: contains no outside input.
PROBE = "exec({!r})".format(  # one word without line breaks or shell characters
    "import json, importlib.metadata as m\n"
    "def ask(f):\n"
    " try: return f()\n"
    " except Exception as why: return 'error: ' + str(why)[:300]\n"
    "def look():\n"
    " import torch as t\n"
    " cuda = lambda name: ask(lambda: getattr(t._C, name)())\n"
    " return dict(torch=t.__version__, cuda=t.version.cuda, cudnn=ask(t.backends.cudnn.version), "
    "nccl=ask(t.cuda.nccl.version), archs=cuda('_cuda_getArchFlags'), flash_attn=ask(lambda: m.version('flash_attn')))\n"
    "said = ask(look)\n"
    "print(json.dumps(dict(said if isinstance(said, dict) else dict(error=said), rackmedic='vers'), default=str))"
)
_VERSION_PATTERN = re.compile(r"\d{1,4}(?:\.\d{1,5}){0,3}[A-Za-z0-9.+_-]{0,40}")
_CUDNN_PATTERN = re.compile(r"compiled\s+against \((\d+), (\d+), (\d+)\) but found runtime version \((\d+), (\d+), (\d+)\)")
_BUILT_FOR_PATTERN = re.compile(r"torch(\d{1,2}\.\d{1,2})")


def is_versions(text: str) -> bool:
    return '"rackmedic": "vers"' in text


def parse_versions(text: str) -> Sequence[Fact]:
    """Return versions of the host, or of each container that the kit queried."""
    outputs: list[tuple[str | None, str]] = [(name[:12], output) for name, output, _ in split_container_answers(text)]
    facts: list[Fact] = []
    for device, output in outputs or [(None, text)]:
        if answer := _find_answer(output):
            facts += _build_version_facts(answer, device)
    return facts or [Fact(CHECK, "vers.torch", status=Status.ABSENT, line="PyTorch is not installed here")]


def _find_answer(text: str) -> Mapping[str, Any] | None:
    return next((answer for answer in parse_json_lines(text) if answer.get("rackmedic") == "vers"), None)


def _build_version_facts(answer: Mapping[str, Any], device: str | None) -> Iterator[Fact]:
    cudnn = str(answer.get("cudnn", ""))
    mismatch = _CUDNN_PATTERN.search(cudnn)
    values = {
        "vers.torch": _parse_version_text(answer.get("torch")),
        "vers.cuda": _parse_version_text(answer.get("cuda")),
        "vers.cudnn": ".".join(mismatch.groups()[3:]) if mismatch else _format_cudnn_version(answer.get("cudnn")),
        "vers.nccl": _format_nccl_version(answer.get("nccl")),
    }
    for key, value in values.items():
        if value:
            yield Fact(CHECK, key, value, device, line=f"{key.removeprefix('vers.')} {value}")
    for bad in find_known_bad(values["vers.nccl"]):
        attrs = {"version": values["vers.nccl"], "fixed": bad.fixed, "where": bad.where, "meaning": bad.meaning, "source": bad.source}
        line = f"NCCL {values['vers.nccl']}: {bad.meaning} ({bad.source})"
        yield Fact(CHECK, "vers.nccl_known_bad", bad.effect, device, line=line, attrs=attrs)
    if mismatch or values["vers.cudnn"]:
        built = ".".join(mismatch.groups()[:3]) if mismatch else values["vers.cudnn"]
        line = cudnn.removeprefix("error: ")[:300] if mismatch else f"cuDNN {built}"
        yield Fact(CHECK, "vers.cudnn_mismatch", mismatch is not None, device, line=line, attrs={"built": built})
    archs = [word for word in str(answer.get("archs") or "").split()[:40] if re.fullmatch(r"(?:sm|compute)_\d{2,3}[af]?", word)]
    if archs:
        yield Fact(CHECK, "vers.archs", archs, device, line=f"built for {' '.join(archs)}"[:300])
    yield from _build_extension_facts(str(answer.get("flash_attn", "")), values["vers.torch"], device)


def _build_extension_facts(version: str, torch: str, device: str | None) -> Iterator[Fact]:
    """Report an extension that was built for another PyTorch; its version names the PyTorch that it needs."""
    built = _BUILT_FOR_PATTERN.search(version)
    if built and torch and not re.match(re.escape(built[1]) + r"(?:\.|$|\+)", torch):
        attrs = {"built_for": built[1], "torch": torch}
        yield Fact(CHECK, "vers.extension_mismatch", "flash_attn", device, line=f"flash_attn {version[:80]}, torch {torch}", attrs=attrs)


def _parse_version_text(value: Any) -> str:
    return value if isinstance(value, str) and _VERSION_PATTERN.fullmatch(value) else ""


def _format_cudnn_version(value: Any) -> str:
    """Format cuDNN's version number: 90100 is 9.1.0, and 8902 is 8.9.2."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1000 <= value < 10_000_000:
        return ""
    return _format_version_number(value)


def _format_version_number(number: int) -> str:
    """Format a version number of five digits or more (9.1.0 is 90100), or of four (8.9.2 is 8902)."""
    if number >= 10_000:
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return f"{number // 1000}.{number // 100 % 10}.{number % 100}"


def _format_nccl_version(value: Any) -> str:
    """Format NCCL's version: `[2, 20, 5]`, or a number such as 2708 from old builds."""
    if isinstance(value, list) and value and all(isinstance(part, int) and 0 <= part < 10_000 for part in value[:3]):
        return ".".join(str(part) for part in value[:3])
    if isinstance(value, int) and not isinstance(value, bool) and 2000 <= value < 100_000:
        return _format_version_number(value)
    return ""


def prefer_container_versions(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Prefer containers' versions: jobs in them do not see the host's PyTorch."""
    container_facts = [fact for fact in facts if fact.device or fact.status.blind]
    if any(fact.key == "vers.torch" and fact.device for fact in container_facts):
        return container_facts
    if not facts:
        return []
    observed_facts = [fact for fact in facts if fact.status is Status.OK or fact.status.blind]
    return observed_facts or [
        Fact(CHECK, "vers.torch", status=Status.ABSENT, line="no PyTorch on the host or in a container that may be asked")
    ]


CHECKS = (
    Check(
        id=CHECK,
        asks="Which PyTorch, CUDA, cuDNN and NCCL does the job's image have, and for which GPUs was it built?",
        commands=(
            Command("host", ("python3", "-c", PROBE), optional=True),
            Command("images", ("rackmedic-look", "inside", "python3", "-c", PROBE), privileged=True, optional=True),
        ),
        formats=(Format("versions", is_versions, parse_versions),),
        establishes=(
            *("vers.torch", "vers.cuda", "vers.cudnn", "vers.cudnn_mismatch", "vers.nccl", "vers.archs"),
            "vers.extension_mismatch",
            "vers.nccl_known_bad",
        ),
        seconds=8.0,
        timeout=60.0,
        settle=prefer_container_versions,
    ),
)
