"""Secrets that are spread over several lines: keys in PEM behind a log's prefix, a name and its value, YAML that goes on below its name.

Takes the lines and changes them in place; each line is looked at a bounded number of times."""

import re
from collections.abc import Iterator

GONE = "[redacted]"
MOST = 400
"""Lines of one key or one block."""
NEAR = 60
"""Lines from the kind of a manifest to its data."""
REACH = MOST + NEAR
"""Lines from one that says something to the farthest that is read for it."""
_GOES_ON = frozenset(":|>-+")
_DIGIT = re.compile(r"\d")

_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY|^Private-Lines: \d")
_BODY = re.compile(
    r"""(?P<head>(?:^|.{0,400}?[^A-Za-z0-9+/=]))(?P<value>[A-Za-z0-9+/]{1,80}={0,2})(?:(?:\\r)?\\n)?["']?[ \t]{0,4}[,+;\\]?\s*$"""
)
_ABOVE = re.compile(r"(?:^|[^\w-])(?:Proc-Type|DEK-Info|Comment|Version|Hash|Charset): .{0,120}$")
_MOST_ABOVE = 8
"""Lines between where a key begins and its first: what it is encrypted with, and a line that is empty but for its prefix."""
_END = ("-----END", "Private-MAC")
_LONG = 40
"""A whole line of a key has 64 characters or more; what is shorter is its last."""


def keys(lines: list[str]) -> None:
    """Private keys whose every line stands behind the same prefix, or that a log cut short."""
    for at in [at for at, line in enumerate(lines) if _BEGIN.search(line)]:
        first = _first(lines, at)
        for inside in range(first, min(first + MOST, len(lines))):
            found = _BODY.match(lines[inside])
            after = lines[inside + 1] if inside + 1 < len(lines) else ""
            if not found or not (len(found["value"]) >= _LONG or any(end in after for end in _END)):
                break
            lines[inside] = lines[inside][: found.start("value")] + GONE + lines[inside][found.end("value") :]


def _first(lines: list[str], at: int) -> int:
    """The first line of the key that begins there which may be of its body."""
    prefix = lines[at].find("-----BEGIN")
    for inside in range(at + 1, min(at + 1 + _MOST_ABOVE, len(lines))):
        if not (_ABOVE.search(lines[inside][:400]) or (prefix >= 0 and len(lines[inside].rstrip()) <= prefix)):
            return inside
    return at + 1


_NAME = re.compile(
    r"""(?:^|[\s{,"'-])["']?(?:name|key)["']?\s{0,2}[:=]\s{0,2}["']?[\w.-]{0,60}(?:pass|pwd|secret|token|credential|api_?key|_key\b|_auth\b|_pat\b)[\w.-]{0,40}""",
    re.IGNORECASE,
)
_ITS_VALUE = re.compile(
    r"""(?P<head>(?:^|[\s{,"'])["']?value["']?\s{0,2}[:=]\s{0,2})(?P<quote>["']?)(?P<value>(?:[^"'\\\n,}]|\\.){3,4096})""", re.IGNORECASE
)


def may_spread(lowered: str) -> bool:
    """Whether a line may say something of others, which no digit in it decides."""
    return _names(lowered) or lowered.rstrip()[-1:] in _GOES_ON or "kind" in lowered or "assw" in lowered or "assphrase" in lowered


def spread(lines: list[str], at: int, lowered: str) -> None:
    """What belongs to a line that names a secret; `lowered` is that line as it was, in lower case, whichever digits there are."""
    if _names(lowered):
        _pair(lines, at)
    if lowered.rstrip()[-1:] in _GOES_ON:
        _below(lines, at)
        _alone(lines, at)
        _users(lines, at)
    if "assw" in lowered or "assphrase" in lowered:
        _sent(lines, at)
    if "kind" in lowered and _KIND.match(lines[at]):
        _manifest(lines, at)
    if "kind" in lowered and _JSON_KIND.search(lines[at]):
        lines[at] = _IN_ONE_LINE.sub(lambda found: f"{found[1]}{_JSON_ENTRY.sub(_entry_gone, found[2])}}}", lines[at])


def _names(lowered: str) -> bool:
    return ("name" in lowered or "key" in lowered) and (":" in lowered or "=" in lowered)


def _pair(lines: list[str], at: int) -> None:
    """`name: DB_PASSWORD` and its `value:`, in one line or in the next or the one before, as containers and manifests list their environment."""
    if not _NAME.search(lines[at]):
        return
    for where in (at, at + 1, at + 2, at - 1) if "valueFrom" in "".join(lines[at + 1 : at + 2]) else (at, at + 1, at - 1):
        if 0 <= where < len(lines) and (where == at or not _OTHER_NAME.search(lines[where])) and (found := _ITS_VALUE.search(lines[where])):
            if not found["value"].strip().startswith(("[", "$", "*")):
                lines[where] = lines[where][: found.start("value")] + GONE + lines[where][found.end("value") :]
            return


_OTHER_NAME = re.compile(r"""["']?\bname["']?\s{0,2}[:=]""", re.IGNORECASE)

_OPENS = re.compile(
    r"""^(?P<indent>[ \t]*)(?:-[ \t]+)?["']?[\w.-]{0,60}(?:passw(?:or)?d|passphrase|secret|token|api_?key|private_?key|credential)s?"""
    r"""[\w.-]{0,20}["']?:[ \t]*(?:[|>][+-]?\d?)?[ \t\r]*$""",
    re.IGNORECASE,
)
_ITEM = re.compile(r"""^(?P<indent>[ \t]*)(?P<dash>-[ \t]+)?(?P<value>["']?[^\s:"']{6,4096}["']?)[ \t\r]*$""")

_FOLDS = frozenset("|>+-")
_MEMBER = re.compile(
    r"""^(?P<indent>[ \t]*)(?P<dash>-[ \t]+)?(?![\w.-]{0,60}(?:name|user|type|id|path|file|url|host|ref|key|version|time|date|at|count|limit|mode))"""
    r"""["']?[\w.-]{1,60}["']?:[ \t]+(?P<value>["']?(?=[^\s"']{0,80}\d)(?=[^\s"']{0,80}[A-Za-z])(?!\d[\d.]{0,12}[A-Za-z%]{1,4}["']?[ \t\r]*$)"""
    r"""[^\s:/\[{"'$*&!<(][^\s:/"'<(]{5,4096}["']?)[ \t\r]*$""",
    re.IGNORECASE,
)
"""A name and its value below `credentials:`; names that say what it is not, and numbers with their unit, are none."""


def _below(lines: list[str], at: int) -> None:
    """What YAML puts below a secret's name: a block, a folded text, a list."""
    if not (opened := _OPENS.match(lines[at])):
        return
    any_text = lines[at].rstrip()[-1:] in _FOLDS
    for inside in range(at + 1, min(at + 1 + MOST, len(lines))):
        found = _ITEM.match(lines[inside]) or _MEMBER.match(lines[inside])
        if not found or len(found["indent"]) + bool(found["dash"]) <= len(opened["indent"]):
            break
        if not (any_text or _DIGIT.search(found["value"])):
            break
        lines[inside] = lines[inside][: found.start("value")] + GONE + lines[inside][found.end("value") :]


_ASKS = re.compile(
    r"""\b(?:password|passwd|passphrase|passwort|kennwort|mot de passe|api[ _-]?key|(?:secret|access)[ _-]?key|token)\b[^:\n]{0,60}:[ \t\r]*$""",
    re.IGNORECASE,
)
_ALONE = re.compile(r"""^[ \t>*`"'-]{0,12}(?P<value>(?=[^\s"'`]{0,80}\d)(?=[^\s"'`]{0,80}[A-Za-z])(?!\[)[^\s"'`:=/]{6,200})[ \t`"'*\r]*$""")
_USERS = re.compile(r"^[ \t]*(?:-[ \t]+)?chpasswd:[ \t\r]*$")
_USER = re.compile(r"^(?P<indent>[ \t]+)(?:-[ \t]*)?[\w-]{1,32}:(?P<value>[^\s\[]\S{2,200})[ \t\r]*$")
_MOST_USERS = 20


def _alone(lines: list[str], at: int) -> None:
    """A password that stands alone below the words that announce it."""
    if not _ASKS.search(lines[at][-200:]):
        return
    for inside in range(at + 1, min(at + 3, len(lines))):
        if found := _ALONE.match(lines[inside]):
            lines[inside] = lines[inside][: found.start("value")] + GONE + lines[inside][found.end("value") :]
        if lines[inside].strip():
            return


def _users(lines: list[str], at: int) -> None:
    """The users of cloud-init, each with a password."""
    if not _USERS.match(lines[at]):
        return
    for inside in range(at + 1, min(at + 1 + _MOST_USERS, len(lines))):
        if not lines[inside].startswith((" ", "\t", "-")):
            return
        if found := _USER.match(lines[inside]):
            lines[inside] = lines[inside][: found.start("value")] + GONE + lines[inside][found.end("value") :]


_SENT = re.compile(
    r"""\bsend(?:line)?\b[ \t(]{1,4}(?:--[ \t]{1,4})?[bru]?(?P<quote>["'])(?P<value>(?!\$|\[)[^"'\n\\]{1,200})(?P<ends>(?:\\[rn])*)(?P=quote)"""
)


def _sent(lines: list[str], at: int) -> None:
    """What a script for expect answers where a password is asked for."""
    for inside in range(at + 1, min(at + 4, len(lines))):
        if "send" not in lines[inside]:
            continue
        found = _SENT.search(lines[inside])
        if found and (found["ends"] or "sendline" in found[0]):
            lines[inside] = lines[inside][: found.start("value")] + GONE + lines[inside][found.end("value") :]
        return


_KIND = re.compile(r"""^[ \t-]*["']?kind["']?:[ \t]*["']?Secret\b""", re.IGNORECASE)
_DATA = re.compile(r"""^(?P<indent>[ \t]*)(?:(?:data|stringData):|"(?:data|stringData)":[ \t]*\{)[ \t\r]*$""")
_ENTRY = re.compile(
    r"""^(?P<head>(?P<indent>[ \t]+)["']?[\w.-]{1,253}["']?:[ \t]*)(?P<value>"[^"\n]{0,16384}"|\S.{0,16384})(?P<ends>,?)[ \t\r]*$"""
)
_IN_ONE_LINE = re.compile(r"""("(?:data|stringData)"[ \t]*:[ \t]*\{)([^{}\n]{2,65536})\}""")
_JSON_ENTRY = re.compile(r"""("[\w.-]{1,253}"[ \t]*:[ \t]*)"[^"\n]{0,16384}\"""")
_JSON_KIND = re.compile(r"""["']kind["'][ \t]*:[ \t]*["']Secret["']""")


def _entry_gone(found: re.Match[str]) -> str:
    return f'{found[1]}"{GONE}"'


def _manifest(lines: list[str], at: int) -> None:
    """A Secret of Kubernetes: all that it holds, whatever its name. `data` may stand before its `kind`, in the same document."""
    for start, indent in _data(lines, at):
        for inside in range(start + 1, min(start + 1 + MOST, len(lines))):
            found = _ENTRY.match(lines[inside])
            if not found or len(found["indent"]) <= indent:
                break
            quote = '"' if found["value"].startswith('"') else ""
            lines[inside] = f"{found['head']}{quote}{GONE}{quote}{found['ends'] if quote else ''}"


def _data(lines: list[str], at: int) -> Iterator[tuple[int, int]]:
    for near in range(max(0, at - NEAR), min(len(lines), at + NEAR)):
        if found := _DATA.match(lines[near]):
            yield near, len(found["indent"])
