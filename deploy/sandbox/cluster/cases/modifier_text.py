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
    """It is not of the form, names nothing known, or has an argument that means nothing."""


def read_modifier(text: object) -> Modifier:
    """Parse a modifier. Raises BadModifier for an unknown kind or argument."""
    found = _MODIFIER_PATTERN.fullmatch(text) if isinstance(text, str) else None
    if not found:
        raise BadModifier(f"{text!r:.120} is not of the form ID(key=value, …)@host")
    number, host = found[1], found[3] or ""
    if number not in MODIFIER_IDS and number not in CONTROLS:
        raise BadModifier(f"there is no modifier {number}")
    args = _parse_arguments(found[2] or "")
    if "@" in args.get("check", ""):
        args["check"], _, host = args["check"].partition("@")
    wrong = [f"{name}={args[name]}" for owner, name, fits in _ARGUMENT_CHECKS if owner == number and name in args and not fits(args[name])]
    if wrong:
        raise BadModifier(f"{', '.join(wrong)} is not understood")
    if number == "R6" and "check" not in args:
        raise BadModifier("R6 needs check=")
    return Modifier(number, args, host)


def _parse_arguments(inner: str) -> dict[str, str]:
    args, rest = dict[str, str](), inner
    while rest.strip():
        found = _ARGUMENT_PATTERN.match(rest)
        if not found:
            raise BadModifier(f"cannot read the arguments from {rest.strip()[:40]!r}")
        value = found[2].strip()
        quoted = len(value) > 1 and value[0] in ("'", '"') and value[-1] == value[0]
        args[found[1]] = value[1:-1] if quoted else value
        rest = rest[found.end() :]
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
