"""Parse one control or difficulty of a case: `ID(key=value, …)@host`; quote a value that contains a comma."""

import re
from collections.abc import Callable
from zoneinfo import ZoneInfo

from deploy.sandbox.cluster.cases.controls import CONTROLS
from deploy.sandbox.cluster.cases.modifiers import MODIFIER_IDS
from deploy.sandbox.cluster.grammar import COMMANDS
from deploy.sandbox.cluster.machines.profiles import PROFILES
from deploy.sandbox.cluster.plan import Modifier

# all current and planned checks; a case may name one that the catalogue lacks
CHECK_IDS = (
    "smi", "topo", "nvlink", "dmesg", "lspci", "ibstat", "sysd", "mods", "disk", "mem", "docker", "env", "joblog", "vers", "procs", "cpu", "time",
    "net", "fabric", "sched", "store", "ipmi", "base", "cuda", "bw", "p2p", "nccl1", "ibbw", "gemm", "dcgm1", "nccl2", "dcgm2", "e2e", "sdc",
)  # fmt: skip

_MODIFIER_PATTERN = re.compile(r"\s*([RH]\d{1,2})\s*(?:\((.*)\))?\s*(?:@\s*(\S+))?\s*", re.DOTALL)
_ARGUMENT_PATTERN = re.compile(r"""\s*([A-Za-z_]\w*)\s*=\s*("(?:[^"\\]|\\.)*"|'[^']*'|[^,]*)\s*(?:,|$)""", re.DOTALL)


class BadModifier(ValueError):
    """The text has the wrong form, an unknown id, or an invalid argument."""


def read_modifier(text: object) -> Modifier:
    """Parse a modifier. Raises BadModifier for an unknown kind or argument."""
    match = _MODIFIER_PATTERN.fullmatch(text) if isinstance(text, str) else None
    if not match:
        raise BadModifier(f"{text!r:.120} is not of the form ID(key=value, …)@host")
    modifier_id, host = match[1], match[3] or ""
    if modifier_id not in MODIFIER_IDS and modifier_id not in CONTROLS:
        raise BadModifier(f"there is no modifier {modifier_id}")
    args = _parse_arguments(match[2] or "")
    if "@" in args.get("check", ""):
        args["check"], _, host = args["check"].partition("@")
    invalid_args: list[str] = []
    for owner_id, name, is_valid in _ARGUMENT_CHECKS:
        if owner_id == modifier_id and name in args and not is_valid(args[name]):
            invalid_args.append(f"{name}={args[name]}")
    if invalid_args:
        raise BadModifier(f"{', '.join(invalid_args)} is not understood")
    if modifier_id == "R6" and "check" not in args:
        raise BadModifier("R6 needs check=")
    return Modifier(modifier_id, args, host)


def _parse_arguments(inner: str) -> dict[str, str]:
    args, rest = dict[str, str](), inner
    while rest.strip():
        match = _ARGUMENT_PATTERN.match(rest)
        if not match:
            raise BadModifier(f"cannot read the arguments from {rest.strip()[:40]!r}")
        value = match[2].strip()
        quoted = len(value) > 1 and value[0] in ("'", '"') and value[-1] == value[0]
        args[match[1]] = value[1:-1] if quoted else value
        rest = rest[match.end() :]
    return args


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return False
    return True


# validators of arguments by modifier
_ARGUMENT_CHECKS: tuple[tuple[str, str, Callable[[str], bool]], ...] = (
    ("R6", "check", lambda value: value in CHECK_IDS or value in COMMANDS),
    ("R6", "how", lambda value: value in ("timeout", "denied", "missing")),
    ("R7", "tz", _is_zone),
    ("R10", "driver", lambda value: re.fullmatch(r"\d{3}(\.\d+)+", value) is not None),
    ("R10", "profile", lambda value: value in PROFILES),
    ("R10", "sku", lambda value: value in PROFILES),
    ("R11", "seen", lambda value: re.fullmatch(r"\d+of[1-9]\d*", value) is not None),
    ("R12", "after", str.isdigit),
)
