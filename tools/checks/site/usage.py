"""Read-only usages of programs in a usage notation. Pure.

A form lists the words besides options: `show|list NAME?` is one of two words and an optional name. Capitals are kinds
(`_KIND_REGEXES`, `_PATH_KINDS`); `?` is optional, `*` any number, `+` one or more. Options are whole words: `--json`;
`-n=NUM` takes a value. `-[abc]` are letters that may be combined as in getopt; without it `-abc` is one option.
Anything not listed is refused.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

# Paths that a site's check may read or query. Pure.
#
# Readable, by allow list: system state and a site's logs. Other places may be queried for names, sizes, owners and file
# systems. Paths never go up, and a name that suggests a secret is not readable.

_PATH_PART = r"[A-Za-z0-9_.,:=@%+-]+"
_PATH_PATTERN = re.compile(rf"/(?:{_PATH_PART}(?:/{_PATH_PART})*/?)?")
_PARENT_STEP_PATTERN = re.compile(r"(?:^|/)\.{1,2}(?:/|$)")
# `*` within one name, `/**` a folder and everything below, `#` a number
_READABLE_GLOBS = """
/proc/cmdline /proc/cpuinfo /proc/meminfo /proc/mounts /proc/loadavg /proc/uptime /proc/version /proc/stat /proc/vmstat /proc/interrupts
/proc/softirqs /proc/modules /proc/devices /proc/partitions /proc/filesystems /proc/swaps /proc/diskstats /proc/buddyinfo /proc/zoneinfo
/proc/slabinfo /proc/iomem /proc/mdstat /proc/cgroups /proc/locks /proc/pagetypeinfo /proc/schedstat /proc/mtrr /proc/crypto
/proc/driver/** /proc/fs/** /proc/sys/** /proc/net/** /proc/irq/** /proc/pressure/* /proc/scsi/** /proc/bus/pci/devices /proc/bus/input/devices
/proc/spl/** /proc/sysvipc/*
/proc/self/mounts /proc/self/mountinfo /proc/self/mountstats /proc/self/cgroup /proc/self/limits /proc/self/status
/proc/#/status /proc/#/stat /proc/#/limits /proc/#/cgroup /proc/#/mounts /proc/#/mountinfo /proc/#/sched /proc/#/wchan /proc/#/numa_maps /proc/#/io
/sys/class/** /sys/bus/** /sys/devices/** /sys/module/** /sys/block/** /sys/fs/** /sys/hypervisor/** /sys/power/* /sys/firmware/acpi/tables
/sys/kernel/mm/** /sys/kernel/iommu_groups/** /sys/kernel/security/lockdown
/etc/os-release /etc/redhat-release /etc/centos-release /etc/rocky-release /etc/dgx-release /etc/lsb-release /etc/debian_version
/etc/fstab /etc/mtab /etc/hosts /etc/hostname /etc/resolv.conf /etc/nsswitch.conf /etc/timezone /etc/machine-id /etc/passwd /etc/group /etc/exports
/etc/chrony.conf /etc/chrony/chrony.conf /etc/ntp.conf /etc/modules /etc/modules-load.d/* /etc/modprobe.d/* /etc/sysctl.conf /etc/sysctl.d/*
/etc/security/limits.conf /etc/security/limits.d/* /etc/default/grub /etc/default/irqbalance /etc/default/cpupower /etc/multipath.conf
/etc/ld.so.conf /etc/ld.so.conf.d/* /etc/udev/rules.d/* /etc/systemd/system.conf /etc/systemd/logind.conf /etc/systemd/journald.conf
/etc/slurm/slurm.conf /etc/slurm/gres.conf /etc/slurm/cgroup.conf /etc/slurm/topology.conf /etc/slurm/node.conf /etc/docker/daemon.json /etc/cdi/*
/etc/nvidia-container-runtime/config.toml /etc/nvidia-imex/config.cfg /etc/nvidia-imex/nodes_config.cfg /usr/share/nvidia/** /etc/enroot/enroot.conf
/etc/infiniband/* /etc/rdma/** /etc/tuned/active_profile /etc/issue /etc/motd /etc/ssl/certs/* /etc/pki/tls/certs/* /etc/kubernetes/pki/*.crt
/var/log/** /run/nvidia*/** /var/run/nvidia*/** /run/reboot-required /var/run/reboot-required /var/lib/node_exporter/** /var/lib/dkms/**
/usr/lib/** /usr/lib64/** /lib/** /lib64/** /usr/share/** /usr/include/** /usr/local/** /opt/** /boot/config-* /boot/System.map-*
/scratch/** /shared/** /mnt/** /data/** /lustre/** /gpfs/** /beegfs/** /nfs/** /weka/** /fsx/**
"""
# Below /sys and /proc: reading these talks to the device or consumes data that other readers wait for.
_ACTS_WHEN_READ_PATTERN = re.compile(r".*/(?:rom|vpd|config|resource\d*(?:_wc)?|trace_pipe|kcore|kmsg)")
_SECRET_PATTERN = re.compile(
    r".*/(?:[^/]*(?:secret|passw(?!d$)|credential|token|shadow|keytab|htpasswd|private|kubeconfig)[^/]*|[^/]*_keys?|btmp[^/]*|id_[a-z0-9_]+|\.[^/]*"
    r"|[^/]*\.(?:key|p12|pfx|jks|kdbx|gpg|asc))(?:/.*)?",
    re.IGNORECASE,
)
_PERSONAL_PATH_PATTERN = re.compile(r"/(?:root|proc/(?:\d+|self|thread-self)/(?:root|cwd|fd|environ|mem|task|map_files))(?:/.*)?")


def _translate_glob(glob: str) -> str:
    marks = {"/**": "(?:/.+)?", "*": "[^/]+", "#": r"\d+"}
    return "".join(marks.get(part, re.escape(part)) for part in re.split(r"(/\*\*|\*|#)", glob))


_READABLE_PATH_PATTERN = re.compile("|".join(map(_translate_glob, _READABLE_GLOBS.split())))


def is_queryable_path(word: str) -> bool:
    """Return whether the path is absolute, never goes up, and is not private to one user or process."""
    return bool(_PATH_PATTERN.fullmatch(word)) and not _PARENT_STEP_PATTERN.search(word) and not _PERSONAL_PATH_PATTERN.fullmatch(word)


def is_readable_path(word: str) -> bool:
    """Return whether the content may be read."""
    if (
        not is_queryable_path(word)
        or _SECRET_PATTERN.fullmatch(word)
        or (word.startswith(("/sys/", "/proc/")) and _ACTS_WHEN_READ_PATTERN.fullmatch(word))
    ):
        return False
    return bool(_READABLE_PATH_PATTERN.fullmatch(word.rstrip("/")))


# Kinds of words in a site's command, each matched whole.

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


_TOKEN_PATTERN = re.compile(r"([A-Za-z0-9_|-]+)([?*+]?)")


@dataclass(frozen=True)
class Usage:
    """`before`: options before the form's first word if that is fixed; `options`: those after it, else all options.

    One option of `must` is required, because without it the program does something else.
    """

    forms: tuple[str, ...]
    options: str = ""
    before: str = ""
    must: str = ""

    def is_allowed(self, words: Sequence[str]) -> bool:
        """Return whether the words after the program fit."""
        operands = self._extract_operands(list(words))
        return operands is not None and any(_matches_form(form, operands) for form in self._parsed_forms)

    @cached_property
    def _parsed_forms(self) -> tuple[tuple["_FormPart", ...], ...]:
        return tuple(tuple(_parse_form(form)) for form in self.forms)

    @cached_property
    def _required_options(self) -> frozenset[str]:
        needed = _Options.parse(self.must)
        return needed.alone | set(needed.valued)

    @cached_property
    def _known_options(self) -> tuple["_Options", "_Options"]:
        later = _Options.parse(f"{self.must} {self.options}")
        fixed = any(form and form[0].is_fixed for form in self._parsed_forms)
        return (_Options.parse(self.before) if fixed else later), later

    def _extract_operands(self, words: list[str]) -> list[str] | None:
        """Return the non-options; None if an option is unknown or a required one is missing."""
        now, later = self._known_options
        used_options: set[str] = set()
        operands: list[str] = []
        while words:
            word = words.pop(0)
            if not word.startswith("-"):
                operands.append(word)
                now = later
            elif not now.accept_option(word, words, used_options):
                return None
        return operands if not self.must or used_options & self._required_options else None


def build_usage(*forms: str, options: str = "", before: str = "", must: str = "") -> Usage:
    """Return a usage, which takes no words without forms."""
    return Usage(forms or ("",), options, before, must)


@dataclass(frozen=True, slots=True)
class _FormPart:
    """Fixed words or a kind, and how often."""

    words: frozenset[str]
    kind: str
    least: int
    most: int

    @property
    def is_fixed(self) -> bool:
        return bool(self.words)

    def accepts_word(self, word: str) -> bool:
        return word in self.words if self.words else is_of_kind(self.kind, word)


_REPEAT_BOUNDS = {"": (1, 1), "?": (0, 1), "*": (0, 64), "+": (1, 64)}


def _parse_form(form: str) -> Iterator[_FormPart]:
    for token in form.split():
        match = _TOKEN_PATTERN.fullmatch(token)
        if match is None:
            raise ValueError(f"{token!r} is no part of a form")
        name, times = match.groups()
        yield _FormPart(frozenset() if name in KINDS else frozenset(name.split("|")), name, *_REPEAT_BOUNDS[times])


def _matches_form(form: Sequence[_FormPart], operands: Sequence[str]) -> bool:
    """Track the positions reachable after each part: no backtracking, so the time stays polynomial."""
    reached = {0}
    for part in form:
        following: set[int] = set()
        for start in reached:
            end = start
            for count in range(part.most + 1):
                if count >= part.least:
                    following.add(end)
                if end == len(operands) or not part.accepts_word(operands[end]):
                    break
                end += 1
        reached = following
    return len(operands) in reached


@dataclass(frozen=True, slots=True)
class _Options:
    """`together`: letters may be combined."""

    alone: frozenset[str]
    valued: dict[str, tuple[str, ...]]
    together: bool

    @classmethod
    def parse(cls, text: str) -> "_Options":
        alone, valued, together = set[str](), dict[str, tuple[str, ...]](), False
        for word in text.split():
            letters = re.fullmatch(r"-\[(\w*)\]", word)
            name, _, kind = word.partition("=")
            if letters:
                together = True
                alone |= {f"-{letter}" for letter in letters[1]}
            elif kind:
                valued[name] = (*valued.get(name, ()), kind)
            else:
                alone.add(name)
        return cls(frozenset(alone), valued, together)

    def accept_option(self, word: str, rest: list[str], seen: set[str]) -> bool:
        """Return whether it is known. Takes its value from `rest` if needed; adds it to `seen`."""
        name, equals, value = word.partition("=")
        if equals and name in self.valued and (name.startswith("--") or not self.together):
            seen.add(name)
            return _is_one_of(self.valued[name], value)
        if word in self.valued and rest and _is_one_of(self.valued[word], rest[0]):
            rest.pop(0)
        elif word not in self.alone:
            return self.together and not word.startswith("--") and self._accept_letters(word[1:], rest, seen)
        seen.add(word)
        return True

    def _accept_letters(self, letters: str, rest: list[str], seen: set[str]) -> bool:
        """`-eo pid` as in getopt: letters without value, then at most one with its value."""
        for place, letter in enumerate(letters):
            kind, behind = self.valued.get(f"-{letter}"), letters[place + 1 :]
            seen.add(f"-{letter}")
            if kind is not None and (behind or rest):
                return _is_one_of(kind, behind or rest.pop(0))
            if f"-{letter}" not in self.alone:
                return False
        return bool(letters)


def _is_one_of(kinds: Sequence[str], word: str) -> bool:
    return any(is_of_kind(kind, word) for kind in kinds)
