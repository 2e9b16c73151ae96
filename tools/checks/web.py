"""A site's service that jobs need, queried with `curl -I`: it answers, refuses, or throttles.

HTTP/1.1 503 Slow Down
curl: (7) Failed to connect to tracker.example port 443 after 1 ms: Connection refused
"""

import re
from collections.abc import Callable, Sequence

from kb.needle_search import split_lines
from tools.checks.check_types import Command, Format, Unreadable
from tools.fact import Fact

_STATUS_PATTERN = re.compile(r"HTTP/[0-9.]{1,3} ([1-5][0-9]{2})\b.{0,100}")
_COMPLAINT_PATTERN = re.compile(r"(?m)^curl: \(([0-9]{1,3})\) .{0,300}")
_CURL_ERROR_WORDS = {
    5: "no_name",
    6: "no_name",
    7: "refused",
    28: "timeout",
    35: "tls",
    51: "tls",
    58: "tls",
    60: "tls",
    77: "tls",
    83: "tls",
}
_UNREACHABLE_PATTERN = re.compile(r"(?i)no route to host|unreachable|timed out")
THROTTLED_STATUSES = (429, 503)

_CURL_COMMAND = "curl -q -sS -I --proto =http,https --max-redirs 0 --connect-timeout 3 --max-time 5"


def build_headers_command(name: str, target: str) -> Command:
    """Return a request to an address of the inventory. An address from a ticket or a log is never requested."""
    return Command(name, (*_CURL_COMMAND.split(), f"{{{target}}}"))


def is_headers(text: str) -> bool:
    first = text.lstrip().split("\n", 1)[0]
    return bool(_STATUS_PATTERN.match(first) or _COMPLAINT_PATTERN.match(first))


def build_headers_format(check: str, key: str) -> Format:
    return Format("headers", is_headers, _build_headers_parser(check, key))


def _build_headers_parser(check: str, key: str) -> Callable[[str], Sequence[Fact]]:
    def parse(text: str) -> Sequence[Fact]:
        # A proxy prints its own status first, so the last one counts. A refusal for missing credentials counts as ok.
        statuses = [match for match in map(_STATUS_PATTERN.match, split_lines(text)) if match]
        if complaint := _COMPLAINT_PATTERN.search(text):
            word = _CURL_ERROR_WORDS.get(int(complaint[1]), "other")
            word = "timeout" if word == "refused" and _UNREACHABLE_PATTERN.search(complaint[0]) else word
            return [Fact(check, key, word, line=complaint[0], attrs={"curl": int(complaint[1])})]
        if not statuses:
            raise Unreadable("neither a status nor a complaint")
        status = int(statuses[-1][1])
        word = "error" if status >= 500 else "ok"
        if status in THROTTLED_STATUSES:
            word = "throttled"
        return [Fact(check, key, word, line=statuses[-1][0].strip(), attrs={"status": status})]

    return parse
