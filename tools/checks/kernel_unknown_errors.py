"""Kernel lines of level err or worse that no reader knows, per boot. Needs logs that print the level."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from kb.logs.kernel_log import is_known_message
from kb.logs.line_prefixes import split_prefix
from kb.needle_search import MAX_LINE_CHARS, zero_digits
from tools.checks.not_understood import NOT_UNDERSTOOD_KEY, build_not_understood_facts
from tools.fact import Fact

_DECODED_LEVELS = (":err   :", ":crit  :", ":alert :", ":emerg :")
_JSON_LEVELS = tuple(f'"PRIORITY":"{level}"' for level in range(4))
# Kernel lines as in `dmesg --decode`, `journalctl -o json`, `dmesg --raw` and /dev/kmsg.
_BY_LEVEL_PATTERN = re.compile(r'kern {1,4}: ?(?:emerg|alert|crit|err) {0,3}:|\{.{0,4000}"PRIORITY" ?: ?"[0-3]"|<[0-3]>|[0-3],\d{1,18},')
_CHRONIC_TEXTS = ("ACCESS_REG(", "PCIe Bus Error: severity=Correct", "AER: Correct", "AER: Multiple Correct")
COUNTED_LINES_TEXT = "kernel lines of level err or worse"
_MAX_KINDS = 512  # kinds of lines classified once; lines of further kinds count as unknown
# continuation of a known line: stacks, registers, tables and dumps of one report
_FOLLOWS_PATTERN = re.compile(
    r"\s|\"echo 0 >|Not tainted|task:|Call Trace|rcu: |\(detected by|Modules linked in|CPU: |CPU#|RIP\b|IP: |Code: |Hardware name:|"
    r"(?:R[A-Z0-9]{2}|E[A-Z]{2}|[CD]R\d|[C-GS]S): |"
    r"Tainted: |---\[|<TASK>|Kernel Offset|Sending NMI|NMI backtrace|NVRM: (?:GPU at|GPU Board|This|NVIDIA|The NVIDIA)|"
    r"(?:mce: )?(?:\{\d+\})?\[Hardware Error\]|EDAC |.{0,60}(?:device \[[0-9a-f]{4}:|\[ ?\d{1,2}\] [A-Z]|TLP Header|error status/mask)|"
    r".{0,80}(?:print_health_info|mlx5_health_try_recover|mlx5_cmd_out_err|AER: (?:can't|device recovery|broadcast))"
)
# printed by healthy machines at boot, or about features they lack
_HARMLESS_PATTERN = re.compile(
    r"ACPI|DMAR|x86/|Spectre|L1TF|MDS|TAA|MMIO Stale|RETBleed|i8042|tpm|ima:|integrity: |Couldn't get (?:size|UEFI)|Loading compiled-in|PKCS#7|"
    r"blacklist: |device-mapper: core|overlayfs: |kvm|KVM|sev |ccp |snd_|hub |usb |ast |mgag200|ipmi_si|lpc_ich|mei_me|mei |pcspkr|"
    r"Error: Driver 'pcspkr'|platform |pnp |ERST: |BERT: |hpwdt|hpilo|iTCO|wmi|sd .{1,20}No Caching mode|sd .{1,20}Assuming drive cache|"
    r"ip_local_port_range|Initramfs unpacking failed|[\w.-]{1,20} [0-9a-f:.]{7,16}: BAR \d{1,2}: .{0,40}\[io|pci [0-9a-f:.]{7,16}: BAR \d{1,2}: .{0,60}\[io|"
    r"Lockdown: (?!.{0,40}nvidia)|Warning: unmaintained|cgroup: |systemd|random: |audit: |loop\d"
)


@dataclass(slots=True)
class _BootErrors:
    count: int = 0
    first: list[str] = field(default_factory=list)


def build_unknown_error_facts(check: str, text: str) -> list[Fact]:
    """Return one fact per boot with such lines."""
    boots: dict[str, _BootErrors] = {}
    kinds: dict[str, tuple[str, str] | None] = {}
    for line in _iter_error_lines(text):
        if any(word in line for word in _CHRONIC_TEXTS):
            continue
        kind = _normalize_line(line)
        if kind not in kinds and len(kinds) < _MAX_KINDS:
            kinds[kind] = _extract_unknown_message(line)
        occurrence = kinds.get(kind, ("", line))
        if occurrence is not None:
            boot = boots.setdefault(occurrence[0], _BootErrors())
            boot.count += 1
            boot.first += [occurrence[1]] if len(boot.first) < 3 else []
    return [_build_boot_fact(check, name, boot) for name, boot in boots.items()]


def _build_boot_fact(check: str, boot_id: str, boot: _BootErrors) -> Fact:
    fact = build_not_understood_facts(check, boot.first)[0]
    return replace(fact, value=boot.count, boot_id=boot_id, attrs={**fact.attrs, "of": COUNTED_LINES_TEXT})


def _iter_error_lines(text: str) -> Iterator[str]:
    head = text[:4].lstrip()
    if head.startswith("<") or (head[:1].isdigit() and "," in text[:8]):
        yield from (line[:MAX_LINE_CHARS] for line in text.split("\n") if _BY_LEVEL_PATTERN.match(line))
        return
    levels = _JSON_LEVELS if head.startswith("{") else _DECODED_LEVELS
    starts = sorted({text.rfind("\n", 0, at) + 1 for level in levels for at in _find_all(text, level)})
    for start in starts:
        end = text.find("\n", start)
        line = text[start : min(end if end >= 0 else len(text), start + MAX_LINE_CHARS)]
        if _BY_LEVEL_PATTERN.match(line):
            yield line


def _find_all(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        end = text.find("\n", at)
        at = text.find(word, end) if end >= 0 else -1


def _normalize_line(line: str) -> str:
    """Remove what varies between lines of one kind; each kind is classified once."""
    at = line.find('"MESSAGE"') if line.startswith("{") else 0
    boot = line.find('"_BOOT_ID"') if at > 0 else -1
    return zero_digits(line[max(at, 0) :][:200]) + (line[boot : boot + 50] if boot >= 0 else "")


def _extract_unknown_message(line: str) -> tuple[str, str] | None:
    """Return (boot id, message); None if known, harmless, or not the kernel's."""
    prefix = split_prefix(line)
    message = prefix.message.partition("\n")[0]
    if prefix.source not in ("", "kernel") or not message.strip() or _FOLLOWS_PATTERN.match(message) or _HARMLESS_PATTERN.match(message):
        return None
    return None if is_known_message(message) else (prefix.boot_id, message.strip()[:300])


def merge_unknown_counts(facts: Sequence[Fact], current: str) -> list[Fact]:
    """Keep one count: the running boot's, the larger of two logs."""
    own_facts = [
        fact
        for fact in facts
        if fact.key == NOT_UNDERSTOOD_KEY and (not fact.boot_id or not current or fact.boot_id.replace("-", "").lower() == current)
    ]
    most_frequent_fact = max(own_facts, key=lambda fact: fact.value if isinstance(fact.value, int) else 0, default=None)
    return [fact for fact in facts if fact.key != NOT_UNDERSTOOD_KEY or fact is most_frequent_fact]
