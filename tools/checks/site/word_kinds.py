"""Kinds of words in a site's command, each matched whole."""

import re
from collections.abc import Callable, Mapping

from tools.checks.site.paths import is_queryable_path, is_readable_path

_TEMPLATE_FIELDS = """State Name Names ID Id Image Created RestartCount Status Driver Runtimes DefaultRuntime ServerVersion CgroupDriver CPUPerc MemUsage PIDs
HostConfig.ShmSize HostConfig.IpcMode HostConfig.Runtime HostConfig.Ulimits HostConfig.DeviceRequests HostConfig.Memory HostConfig.NetworkMode
HostConfig.Privileged Repository Tag Size Ports RunningFor DockerRootDir KernelVersion Server.Version"""
_TEMPLATE_FIELD_REGEX = rf"\{{\{{ ?(?:json )?\.(?:{'|'.join(map(re.escape, _TEMPLATE_FIELDS.split()))})(?:\.(?!Env)[A-Z][A-Za-z]+)* ?\}}\}}"
_KIND_REGEXES: Mapping[str, str] = {
    "NUM": r"[+]?\d{1,12}(?:\.\d+)?[kKMGTs]?",
    "OFFSET": r"[+-]?\d{1,12}",
    "HEX": r"(?:0x)?[0-9A-Fa-f]{1,16}",
    "NAME": r"[A-Za-z0-9_][A-Za-z0-9_.:@+-]*",
    "NAMES": r"[A-Za-z0-9_%+][A-Za-z0-9_.:@+%-]*(?:,[A-Za-z0-9_.:@+%-]+)*",
    "LIST": r"[A-Za-z0-9_.:,\[\]-]+",
    "OBJECT": r"(?!.*[Ss]ecret)[A-Za-z0-9][A-Za-z0-9_.:@+-]*",
    "COLUMNS": r"(?!.*env)[+-]?[A-Za-z%][A-Za-z0-9_%:=.-]*(?:,[A-Za-z0-9_%:=.+-]+)*",
    "PROPERTIES": r"(?!.*[Ee]nv)[A-Za-z]+(?:,[A-Za-z]+)*",
    "SELECTOR": r"[A-Za-z0-9][A-Za-z0-9_./!=,-]*",
    "JSONPATH": r"(?:jsonpath|custom-columns)=(?!.*[Ee]nv)[A-Za-z0-9_.,:{}\[\]*\"/ -]+",
    "FIELD": r"\.?[A-Za-z][A-Za-z0-9.]*",
    "KEY": r"[a-z0-9_*-]+(?:[./][A-Za-z0-9_*@:-]+)*",
    "SYSCTL": r"(?!.*(?:key|secret)(?:\W|$))[a-z0-9_-]+(?:[./][A-Za-z0-9_@:-]+)*",
    "LOG": r"(?:error|selftest|selective|background|sasphy|sataphy|scterc|scttemp|scttempsts|scttemphist|envrep|ssd|genstats"
    r"|xerror(?:,\d+)?(?:,error)?|xselftest(?:,\d+)?(?:,selftest)?|directory(?:,[gs])?|(?:devstat|defects)(?:,\w+)?"
    r"|(?:gplog|smartlog|nvmelog)(?:,\w+){1,2})",
    "MATCH": r"_?[A-Z][A-Z0-9_]*=[A-Za-z0-9_./:@+-]+",
    "TEXT": r"[^-].*",
    "GLOB": r"[A-Za-z0-9_.*?\[\]-]+",
    "TIME": r"[+-]?[A-Za-z0-9][A-Za-z0-9:. +-]*",
    "CLOCK": r"\+[A-Za-z0-9%:/._ +-]+",
    "PCI": r"(?:[0-9a-fA-F]{0,8}:)?[0-9a-fA-F]{0,4}:[0-9a-fA-F*]{0,4}(?:\.[0-7*])?(?::[0-9a-fA-F]{0,6})?|[0-9a-fA-F]{2}(?:\.[0-7])?",
    "REGISTER": r"[A-Za-z0-9_+]+(?:\.[bwlBWL])?",
    "ADDRESS": r"[0-9A-Fa-f.:]+(?:/\d{1,3})?",
    "ADAPTER": r"[a-z0-9_]+|/dev/mst/[A-Za-z0-9_.]+|(?:[0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]",
    "DISK": r"/dev/(?:sd|hd|vd|xvd|nvme|md|dm-|sg|mapper/|disk/by-[a-z]+/|bus/\d)[A-Za-z0-9_.:+-]*",
    "STATED": rf"(?:[A-Za-z0-9 _:=\t-]*{_TEMPLATE_FIELD_REGEX})+[A-Za-z0-9 _-]*|json",
}
_PATH_KINDS: Mapping[str, Callable[[str], bool]] = {"FILE": is_readable_path, "PLACE": is_queryable_path}
_KIND_PATTERNS = {name: re.compile(shape) for name, shape in _KIND_REGEXES.items()}
KINDS = frozenset({*_KIND_REGEXES, *_PATH_KINDS})


def is_of_kind(kind: str, word: str) -> bool:
    return _PATH_KINDS[kind](word) if kind in _PATH_KINDS else _KIND_PATTERNS[kind].fullmatch(word) is not None
