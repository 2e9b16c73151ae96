"""Find the hosts and the job that a text names. Hosts match as whole words; ranges in any notation.

An unknown name that looks like a host is reported as spelt and never replaced by another. Only `lenient` callers get a
host whose separators differ, with the original spelling.
"""

import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import starmap
from typing import NamedTuple

from graph.extraction.host_index import NON_HOST_PATTERN, HostIndex
from graph.extraction.host_lists import BRACKET_RANGE_PATTERN, HOST_NAME_PATTERN, parse_bracket_range, parse_host_list
from graph.extraction.host_numbers import NODE_NUMBERS_PATTERN, iter_stem_numbers, parse_node_numbers

_CALLED_HOST_PATTERN = re.compile(
    r"\b(?:nodes?|hosts?|machines?|servers?|box) (?:called |named )?[`*'\"]?(?P<name>[a-z][a-z0-9._-]{0,60}\d[a-z0-9._-]{0,60})|"
    r"(?<![\w.-])(?P<before>[a-z][a-z0-9._-]{0,60}\d) (?:box|node|host|machine|server)\b",
    re.IGNORECASE,
)
_JOB_PATTERNS = (
    re.compile(
        r"\b(?:slurm[ _-]?)?job[ _-]?(?:id|number|no\.?|nr\.?)?[ ]?[:=#`'\"]{0,3} ?(?:is |was )?[#`*'\"]{0,2}"
        r"(?P<job>\d{2,12}(?:_\d{1,6})?)(?![\w-])",
        re.IGNORECASE,
    ),
    re.compile(
        r"\b(?:slurm[ _-]?)?job [#`*'\"]{0,2}(?P<job>\d)(?![\w%:-]|\.\d)"
        r"(?! ?(?:of|x|times?|gpus?|nodes?|hosts?|ranks?|tasks?|steps?|seconds?|minutes?|hours?|days?|weeks?|more|other)\b)",
        re.IGNORECASE,
    ),
    re.compile(
        r"\b(?:slurm[ _]?)?job[ _-]?id[ ]?[:=]? ?[`'\"]?(?P<job>[A-Za-z0-9][A-Za-z0-9._-]{0,63}\d[A-Za-z0-9._-]{0,20}|\d{1,12})",
        re.IGNORECASE,
    ),
    re.compile(r"\bjob(?: called| named)?[ :=]{1,2}[`'\"](?P<job>[A-Za-z0-9][A-Za-z0-9._-]{1,63})[`'\"]", re.IGNORECASE),
)
_BARE_NUMBER_PATTERN = re.compile(r"(?<![\w.:/#\[,-])0\d{2,5}(?![\w.:%\]-])")
# A range from a zero-padded number: `001-3`.
_BARE_RANGE = re.compile(r"(?<![\w.:/#\[,-])(?P<first>0\d{2,5})(?:-|\.\.| to )(?P<last>\d{1,6})(?![\w.:%\]-])")
# Before a number: it counts no hosts.
_OTHER_COUNT_PATTERN = re.compile(
    r"\b(?:jobs?|ranks?|steps?|epochs?|iterations?|batch|tickets?|incidents?|codes?|s?xids?|pids?|errors?|runs?|rooms?|racks?|ports?|lanes?|"
    r"tasks?|arrays?|users?|versions?|attempts?|lines?|ids?|nr|no|number)\W{0,3}(?:is |was )?(?:\d{1,8}(?:, ?| and | or | ?/ ?)){0,4}$",
    re.IGNORECASE,
)
_MAX_COUNT_CHARS = 64
MAX_EXPANDED_HOSTS = 32  # Longest range of numbers that is written out.


@dataclass(frozen=True, slots=True)
class NamedHosts:
    hosts: tuple[str, ...]
    unknown: tuple[str, ...]
    read_as: tuple[tuple[str, str], ...] = ()  # Names as written, each with the host it was read as.


class HostSpan(NamedTuple):
    start: int
    end: int
    names: list[str]


def find_hosts(
    text: str, host_index: "Collection[str] | HostIndex", domains: Collection[str] | None = None, *, lenient: bool = False
) -> NamedHosts:
    """Return known hosts in the text, and unknown names and ranges that look like hosts.

    Args:
        host_index: Names of known hosts. To read many texts, pass a `HostIndex`; `domains` is then ignored.
        domains: Domains of known hosts; a full name elsewhere is another host. None accepts any, as in machine output.
        lenient: Read `gpu_003` as gpu-003 where no other host can be meant.
    """
    index = host_index if isinstance(host_index, HostIndex) else HostIndex(host_index, domains)
    return resolve_names([name for span in find_host_spans(text, index) for name in span.names], index, lenient=lenient)


def find_host_spans(text: str, host_index: HostIndex) -> list[HostSpan]:
    host_spans: list[HostSpan] = []

    def blank_out_range(match: re.Match[str]) -> str:
        names = parse_bracket_range(match[0], host_index)
        host_spans.extend([HostSpan(match.start(), match.end(), names)] if names else [])
        return " " * len(match[0]) if names else match[0]

    rest = BRACKET_RANGE_PATTERN.sub(blank_out_range, text) if host_index else text
    at = 0
    while match := HOST_NAME_PATTERN.search(rest, at):
        host_list = parse_host_list(rest, match, host_index)
        if host_list:
            host_spans.append(HostSpan(match.start(), host_list.end, host_list.names))
        at = host_list.end if host_list else match.end()
    named_starts = sorted(span.start for span in host_spans)
    stem_spans = list(starmap(HostSpan, iter_stem_numbers(rest, host_index, named_starts)))
    stem_ends = {span.end for span in stem_spans}
    host_spans += stem_spans
    host_spans += [
        HostSpan(match.start(), match.end(), names)
        for match in NODE_NUMBERS_PATTERN.finditer(rest)
        if match.end() not in stem_ends and (names := parse_node_numbers(match, host_index))
    ]
    taken_starts = {span.start for span in host_spans}
    for match in _CALLED_HOST_PATTERN.finditer(rest):
        start, end = match.span(match.lastgroup or 0)
        if start not in taken_starts and (name := _parse_called_host(match, host_index)):
            host_spans.append(HostSpan(start, end, [name]))
    return sorted(host_spans, key=lambda span: span.start)


def expand_host_numbers(text: str, host_index: "Collection[str] | HostIndex") -> str:
    """Write `003` as `gpu-003` and `nodes 3-5` as `gpu-003, gpu-004, gpu-005`, where exactly one known host has the
    number.

    In text about numbered hosts a zero-padded number hardly means anything else.
    """
    index = host_index if isinstance(host_index, HostIndex) else HostIndex(host_index)

    def expand_number(match: re.Match[str]) -> str:
        text_before = match.string[max(0, match.start() - _MAX_COUNT_CHARS) : match.start()]
        return match[0] if _OTHER_COUNT_PATTERN.search(text_before) else index.find_by_digits(match[0]) or match[0]

    def expand_numbered_hosts(match: re.Match[str]) -> str:
        names = parse_node_numbers(match, index)
        has_prefix = match["link"] or match["before"] or match[0].lower().startswith("hosts")
        prefix = match.string[match.start() : match.start("first")].rstrip("#") if has_prefix else ""
        return f"{prefix}{', '.join(names)}" if 0 < len(names) <= MAX_EXPANDED_HOSTS and all(map(index.find_host, names)) else match[0]

    def expand_bare_range(match: re.Match[str]) -> str:
        text_before = match.string[max(0, match.start() - _MAX_COUNT_CHARS) : match.start()]
        first, last, width = int(match["first"]), int(match["last"]), len(match["first"])
        if _OTHER_COUNT_PATTERN.search(text_before) or not first < last < first + MAX_EXPANDED_HOSTS:
            return match[0]
        names = [index.find_by_digits(f"{number:0{width}}") for number in range(first, last + 1)]
        return ", ".join(filter(None, names)) if all(names) else match[0]

    return _BARE_NUMBER_PATTERN.sub(
        expand_number, _BARE_RANGE.sub(expand_bare_range, NODE_NUMBERS_PATTERN.sub(expand_numbered_hosts, text))
    )


def find_job_id(text: str) -> str:
    match = next((match for pattern in _JOB_PATTERNS if (match := pattern.search(text))), None)
    return match["job"].rstrip(".-") if match else ""


def _parse_called_host(match: re.Match[str], host_index: HostIndex) -> str:
    """A device's name counts only if a host of that number is known."""
    name = (match["name"] or match["before"]).rstrip(".-_")
    return name if host_index and (not NON_HOST_PATTERN.match(name) or (match["before"] and host_index.find_similar_host(name))) else ""


def resolve_names(names: Iterable[str], host_index: HostIndex, *, lenient: bool = False) -> NamedHosts:
    """Split names into known and unknown ones. `lenient`: accept a known host with other separators and record the
    spelling.
    """
    hosts: dict[str, None] = {}
    unknown: list[str] = []
    read_as: list[tuple[str, str]] = []
    for name in dict.fromkeys(names):
        if host := host_index.find_host(name):
            hosts[host] = None
        elif lenient and (host := host_index.find_similar_host(name)):
            hosts[host] = None
            read_as.append((name, host))
        else:
            unknown.append(name)
    return NamedHosts(tuple(hosts), tuple(unknown), tuple(read_as))
