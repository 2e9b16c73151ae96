"""Secrets over several lines: prefixed PEM keys, name and value pairs, YAML blocks.

Changes lines in place; each is read a bounded number of times.
"""

import re
from collections.abc import Iterator

REDACTED = "[redacted]"
MAX_BLOCK_LINES = 400  # of one key or block
MAX_MANIFEST_DISTANCE = 60  # from a manifest's kind to its data
MAX_REACH_LINES = MAX_BLOCK_LINES + MAX_MANIFEST_DISTANCE  # from a line to the farthest one read because of it
_CONTINUATION_CHARS = frozenset(":|>-+")
_DIGIT_PATTERN = re.compile(r"\d")
_BEGIN_PATTERN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY|^Private-Lines: \d")
_BODY_PATTERN = re.compile(
    r"""(?P<head>(?:^|.{0,400}?[^A-Za-z0-9+/=]))(?P<value>[A-Za-z0-9+/]{1,80}={0,2})(?:(?:\\r)?\\n)?["']?[ \t]{0,4}[,+;\\]?\s*$"""
)
_ABOVE_PATTERN = re.compile(r"(?:^|[^\w-])(?:Proc-Type|DEK-Info|Comment|Version|Hash|Charset): .{0,120}$")
_MAX_HEADER_LINES = 8  # between a key's BEGIN and its body: encryption headers and a blank line behind the prefix
_KEY_END_TEXTS = ("-----END", "Private-MAC")
_MIN_FULL_LINE_CHARS = 40  # full key lines have at least 64; shorter ones are the last


def redact_private_keys(lines: list[str]) -> None:
    """Redact private keys, also behind a common prefix or cut short."""
    for at in [at for at, line in enumerate(lines) if _BEGIN_PATTERN.search(line)]:
        first = _find_first_body_line(lines, at)
        for inside in range(first, min(first + MAX_BLOCK_LINES, len(lines))):
            match = _BODY_PATTERN.match(lines[inside])
            after = lines[inside + 1] if inside + 1 < len(lines) else ""
            if not match or not (len(match["value"]) >= _MIN_FULL_LINE_CHARS or any(end in after for end in _KEY_END_TEXTS)):
                break
            lines[inside] = lines[inside][: match.start("value")] + REDACTED + lines[inside][match.end("value") :]


def _find_first_body_line(lines: list[str], at: int) -> int:
    prefix = lines[at].find("-----BEGIN")
    for inside in range(at + 1, min(at + 1 + _MAX_HEADER_LINES, len(lines))):
        if not (_ABOVE_PATTERN.search(lines[inside][:400]) or (prefix >= 0 and len(lines[inside].rstrip()) <= prefix)):
            return inside
    return at + 1


_NAME_PATTERN = re.compile(
    r"""(?:^|[\s{,"'-])["']?(?:name|key)["']?\s{0,2}[:=]\s{0,2}["']?[\w.-]{0,60}(?:pass|pwd|secret|token|credential|api_?key|_key\b|_auth\b|_pat\b)[\w.-]{0,40}""",
    re.IGNORECASE,
)
_ITS_VALUE_PATTERN = re.compile(
    r"""(?P<head>(?:^|[\s{,"'])["']?value["']?\s{0,2}[:=]\s{0,2})(?P<quote>["']?)(?P<value>(?:[^"'\\\n,}]|\\.){3,4096})""", re.IGNORECASE
)


def may_spread(lowered: str) -> bool:
    """Return whether a masked line may concern others."""
    return (
        _may_name(lowered)
        or lowered.rstrip()[-1:] in _CONTINUATION_CHARS
        or "kind" in lowered
        or "assw" in lowered
        or "assphrase" in lowered
    )


def redact_spread(lines: list[str], at: int, lowered: str) -> None:
    """Redact lines that belong to one naming a secret; `lowered` is its original masked text."""
    if _may_name(lowered):
        _redact_name_value_pair(lines, at)
    if lowered.rstrip()[-1:] in _CONTINUATION_CHARS:
        _redact_yaml_below(lines, at)
        _redact_password_below(lines, at)
        _redact_cloud_init_users(lines, at)
    if "assw" in lowered or "assphrase" in lowered:
        _redact_expect_answer(lines, at)
    if "kind" in lowered and _KIND_PATTERN.match(lines[at]):
        _redact_secret_manifest(lines, at)
    if "kind" in lowered and _JSON_KIND_PATTERN.search(lines[at]):
        lines[at] = _IN_ONE_LINE_PATTERN.sub(lambda found: f"{found[1]}{_JSON_ENTRY_PATTERN.sub(_redact_entry, found[2])}}}", lines[at])


def _may_name(lowered: str) -> bool:
    return ("name" in lowered or "key" in lowered) and (":" in lowered or "=" in lowered)


def _redact_name_value_pair(lines: list[str], at: int) -> None:
    """`name: DB_PASSWORD` with `value:` in the same or an adjacent line, as in container environments."""
    if not _NAME_PATTERN.search(lines[at]):
        return
    for value_line in (at, at + 1, at + 2, at - 1) if "valueFrom" in "".join(lines[at + 1 : at + 2]) else (at, at + 1, at - 1):
        if (
            0 <= value_line < len(lines)
            and (value_line == at or not _OTHER_NAME_PATTERN.search(lines[value_line]))
            and (match := _ITS_VALUE_PATTERN.search(lines[value_line]))
        ):
            if not match["value"].strip().startswith(("[", "$", "*")):
                lines[value_line] = lines[value_line][: match.start("value")] + REDACTED + lines[value_line][match.end("value") :]
            return


_OTHER_NAME_PATTERN = re.compile(r"""["']?\bname["']?\s{0,2}[:=]""", re.IGNORECASE)
_OPENS_PATTERN = re.compile(
    r"""^(?P<indent>[ \t]*)(?:-[ \t]+)?["']?[\w.-]{0,60}(?:passw(?:or)?d|passphrase|secret|token|api_?key|private_?key|credential)s?"""
    r"""[\w.-]{0,20}["']?:[ \t]*(?:[|>][+-]?\d?)?[ \t\r]*$""",
    re.IGNORECASE,
)
_ITEM_PATTERN = re.compile(r"""^(?P<indent>[ \t]*)(?P<dash>-[ \t]+)?(?P<value>["']?[^\s:"']{6,4096}["']?)[ \t\r]*$""")
_FOLD_CHARS = frozenset("|>+-")
# a name and value below `credentials:`; harmless names and numbers with units are excluded
_MEMBER_PATTERN = re.compile(
    r"""^(?P<indent>[ \t]*)(?P<dash>-[ \t]+)?(?![\w.-]{0,60}(?:name|user|type|id|path|file|url|host|ref|key|version|time|date|at|count|limit|mode))"""
    r"""["']?[\w.-]{1,60}["']?:[ \t]+(?P<value>["']?(?=[^\s"']{0,80}\d)(?=[^\s"']{0,80}[A-Za-z])(?!\d[\d.]{0,12}[A-Za-z%]{1,4}["']?[ \t\r]*$)"""
    r"""[^\s:/\[{"'$*&!<(][^\s:/"'<(]{5,4096}["']?)[ \t\r]*$""",
    re.IGNORECASE,
)


def _redact_yaml_below(lines: list[str], at: int) -> None:
    """A block, folded text or list."""
    if not (opened := _OPENS_PATTERN.match(lines[at])):
        return
    any_text = lines[at].rstrip()[-1:] in _FOLD_CHARS
    for inside in range(at + 1, min(at + 1 + MAX_BLOCK_LINES, len(lines))):
        match = _ITEM_PATTERN.match(lines[inside]) or _MEMBER_PATTERN.match(lines[inside])
        if not match or len(match["indent"]) + bool(match["dash"]) <= len(opened["indent"]):
            break
        if not (any_text or _DIGIT_PATTERN.search(match["value"])):
            break
        lines[inside] = lines[inside][: match.start("value")] + REDACTED + lines[inside][match.end("value") :]


_ASKS_PATTERN = re.compile(
    r"""\b(?:password|passwd|passphrase|passwort|kennwort|mot de passe|api[ _-]?key|(?:secret|access)[ _-]?key|token)\b[^:\n]{0,60}:[ \t\r]*$""",
    re.IGNORECASE,
)
_ALONE_PATTERN = re.compile(
    r"""^[ \t>*`"'-]{0,12}(?P<value>(?=[^\s"'`]{0,80}\d)(?=[^\s"'`]{0,80}[A-Za-z])(?!\[)[^\s"'`:=/]{6,200})[ \t`"'*\r]*$"""
)
_USERS_PATTERN = re.compile(r"^[ \t]*(?:-[ \t]+)?chpasswd:[ \t\r]*$")
_USER_PATTERN = re.compile(r"^(?P<indent>[ \t]+)(?:-[ \t]*)?[\w-]{1,32}:(?P<value>[^\s\[]\S{2,200})[ \t\r]*$")
_MAX_USERS = 20


def _redact_password_below(lines: list[str], at: int) -> None:
    """Alone on a line below its announcement."""
    if not _ASKS_PATTERN.search(lines[at][-200:]):
        return
    for inside in range(at + 1, min(at + 3, len(lines))):
        if match := _ALONE_PATTERN.match(lines[inside]):
            lines[inside] = lines[inside][: match.start("value")] + REDACTED + lines[inside][match.end("value") :]
        if lines[inside].strip():
            return


def _redact_cloud_init_users(lines: list[str], at: int) -> None:
    if not _USERS_PATTERN.match(lines[at]):
        return
    for inside in range(at + 1, min(at + 1 + _MAX_USERS, len(lines))):
        if not lines[inside].startswith((" ", "\t", "-")):
            return
        if match := _USER_PATTERN.match(lines[inside]):
            lines[inside] = lines[inside][: match.start("value")] + REDACTED + lines[inside][match.end("value") :]


_SENT_PATTERN = re.compile(
    r"""\bsend(?:line)?\b[ \t(]{1,4}(?:--[ \t]{1,4})?[bru]?(?P<quote>["'])(?P<value>(?!\$|\[)[^"'\n\\]{1,200})(?P<ends>(?:\\[rn])*)(?P=quote)"""
)


def _redact_expect_answer(lines: list[str], at: int) -> None:
    """Sent to a password prompt."""
    for inside in range(at + 1, min(at + 4, len(lines))):
        if "send" not in lines[inside]:
            continue
        match = _SENT_PATTERN.search(lines[inside])
        if match and (match["ends"] or "sendline" in match[0]):
            lines[inside] = lines[inside][: match.start("value")] + REDACTED + lines[inside][match.end("value") :]
        return


_KIND_PATTERN = re.compile(r"""^[ \t-]*["']?kind["']?:[ \t]*["']?Secret\b""", re.IGNORECASE)
_DATA_PATTERN = re.compile(r"""^(?P<indent>[ \t]*)(?:(?:data|stringData):|"(?:data|stringData)":[ \t]*\{)[ \t\r]*$""")
_ENTRY_PATTERN = re.compile(
    r"""^(?P<head>(?P<indent>[ \t]+)["']?[\w.-]{1,253}["']?:[ \t]*)(?P<value>"[^"\n]{0,16384}"|\S.{0,16384})(?P<ends>,?)[ \t\r]*$"""
)
_IN_ONE_LINE_PATTERN = re.compile(r"""("(?:data|stringData)"[ \t]*:[ \t]*\{)([^{}\n]{2,65536})\}""")
_JSON_ENTRY_PATTERN = re.compile(r"""("[\w.-]{1,253}"[ \t]*:[ \t]*)"[^"\n]{0,16384}\"""")
_JSON_KIND_PATTERN = re.compile(r"""["']kind["'][ \t]*:[ \t]*["']Secret["']""")


def _redact_entry(match: re.Match[str]) -> str:
    return f'{match[1]}"{REDACTED}"'


def _redact_secret_manifest(lines: list[str], at: int) -> None:
    """`data` may precede `kind`."""
    for start, indent in _iter_data_starts(lines, at):
        for inside in range(start + 1, min(start + 1 + MAX_BLOCK_LINES, len(lines))):
            match = _ENTRY_PATTERN.match(lines[inside])
            if not match or len(match["indent"]) <= indent:
                break
            quote = '"' if match["value"].startswith('"') else ""
            lines[inside] = f"{match['head']}{quote}{REDACTED}{quote}{match['ends'] if quote else ''}"


def _iter_data_starts(lines: list[str], at: int) -> Iterator[tuple[int, int]]:
    for neighbour in range(max(0, at - MAX_MANIFEST_DISTANCE), min(len(lines), at + MAX_MANIFEST_DISTANCE)):
        if match := _DATA_PATTERN.match(lines[neighbour]):
            yield neighbour, len(match["indent"])
