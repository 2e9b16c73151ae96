"""The one choke point for secrets: everything that is stored, shown, sent to a model or logged has passed `redact`.

It takes out what opens a door (tokens, keys, passwords) and keeps what names a thing (PCI addresses, UUIDs, GUIDs, digests, hosts, IPs).
Every pattern is bounded, so the cost is linear in the text; redacting twice changes nothing.
"""

import json
import re
import unicodedata
from collections.abc import Callable, Iterator

from kb.scan import candidates

GONE = "[redacted]"

_VALUE = r"""(?P<value>\\{1,6}"[^"\\\n]{0,4096}|"(?:[^"\\\n]|\\.){0,4096}"?|'[^'\n]{0,4096}'?|[^\s"'\\,;&|<>(){}]{1,4096})"""
_NAMES = (
    r"(?:pass(?:word|wd|phrase)|(?<![a-z])pwd(?!=?/)|secret|credentials?(?![a-z]*/)|api[_-]?key|access[_-]?key(?![_-]?id)|private[_-]?key|"
    r"client[_-]key[_-]data|account[_-]?key|signing[_-]?key|encryption[_-]?key|token(?!s|i[sz]|_?(?:type|count|len|id\b|per|num))|"
    r"auth[_-]?key|\bsignature|\bsas\b)"
)
_ASSIGNED = re.compile(
    rf"""(?P<head>{_NAMES}[\w-]{{0,40}}(?:\\{{0,6}}["'])?[ \t]{{0,4}}(?:=>|:=|={{1,2}}|:)[ \t]{{0,4}}){_VALUE}""", re.IGNORECASE
)
_MAYBE_ASSIGNED = re.compile(rf"""{_NAMES}[\w-]{{0,40}}\\{{0,6}}["']?[ \t]{{0,4}}[=:]""")
"""The same over a line in lower case and without its value: most lines that say `token` assign nothing."""
LONGEST_PREFIX = 16
"""Characters of a name before its needle: `encryption_` of `encryption_key`."""
_FLAG = re.compile(rf"(?P<head>--?(?:[\w-]{{0,40}}-)?(?:password|passwd|token|secret|api-?key)[ \t]{{1,4}})(?!-){_VALUE}", re.IGNORECASE)
_ENV = re.compile(rf"(?P<head>\b[A-Z][A-Z0-9_]{{0,80}}_(?:KEY|PAT|PASS|PWD|AUTH|CREDS|TOKEN|SECRET)=){_VALUE}")
_DOCKER = re.compile(r"""(?P<head>"auth"[ \t]{0,4}:[ \t]{0,4})(?P<value>"[A-Za-z0-9+/=]{8,4096}")""")
_HEADER = re.compile(
    r"""(?P<head>\b(?:proxy-)?authorization\\{0,6}["']?[ \t]{0,4}[:=][ \t]{0,4}\\{0,6}["']?(?:(?:bearer|basic|token|digest|negotiate|apikey)[ \t]{1,4})?)"""
    r"""(?P<value>[^\s"'\\,;<>]{1,4096})""",
    re.IGNORECASE,
)
_BEARER = re.compile(r"(?P<head>\b(?:bearer|basic)[ \t]{1,4})(?P<value>[A-Za-z0-9._~+/=-]{16,4096})", re.IGNORECASE)
_URL = re.compile(r"(?P<head>\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@\"'<>]{0,128}:)(?P<value>[^\s/@\"'<>]{1,512})(?=@)", re.IGNORECASE)
_WANDB = re.compile(r"(?P<head>wandb[^\n]{0,60}?\b)(?P<value>(?:local-)?[0-9a-f]{40})\b", re.IGNORECASE)
_COOKIE = re.compile(r"(?P<head>\b(?:set-)?cookie: )(?P<value>[^\n]{1,4096})", re.IGNORECASE)

_TOKENS = re.compile(
    r"\bxox[a-z]{1,2}-[A-Za-z0-9-]{8,}|\bxapp-\d-[A-Za-z0-9-]{10,}|(?<=hooks\.slack\.com/)(?:services|workflows)/[A-Za-z0-9/_-]{10,}"
    r"|\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b|\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}|\bglpat-[A-Za-z0-9_-]{16,}"
    r"|\bhf_[A-Za-z0-9]{20,}|\bsk-(?=[A-Za-z_-]{0,80}\d)[A-Za-z0-9_-]{20,}|\bnvapi-[A-Za-z0-9_-]{20,}|\bAIza[A-Za-z0-9_-]{35}"
    r"|\bya29\.[A-Za-z0-9_-]{20,}|\bnpm_[A-Za-z0-9]{30,}|\bpypi-[A-Za-z0-9_-]{40,}|\bdckr_pat_[A-Za-z0-9_-]{20,}|\bhvs\.[A-Za-z0-9_-]{20,}"
    r"|\bgls?[ac]_[A-Za-z0-9_]{20,}|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)*"
)
_PEM = re.compile(
    r"-----BEGIN (?P<what>[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----"
    r"(?:(?:\s|\\n|\\r|\")+(?:(?:Proc-Type|DEK-Info|Comment|Version)[^\n]{0,120}|[A-Za-z0-9+/=]{24,}(?![^\s\\\"])))*"
    r"(?:(?:\s|\\n|\\r|\")+[A-Za-z0-9+/=]{1,80}(?=(?:\s|\\n|\\r)*-----END))?(?:(?:\s|\\n|\\r)*-----END [A-Z0-9 ]{0,60}-----)?"
)
_BYTES = re.compile(r'("MESSAGE"\s{0,2}:\s{0,2})\[([\d, ]{1,262144})\]')
_PLAIN = re.compile(
    r"\[redacted\]|\*{2,}|x{4,}|<[^>]{0,40}>|\$[({]?[A-Za-z_]|%[A-Za-z_]+%|none$|null$|true$|false$|yes$|no$|[\d.]{1,12}$|\W*$",
    re.IGNORECASE,
)


def _keep_head(found: re.Match[str]) -> str:
    """The value gone, its quotes kept; a value that is plainly no secret (a number, a flag, a placeholder) stays."""
    head, value = found["head"], found["value"]
    opening = re.match(r"""\\*["']?""", value)
    quote = opening[0] if opening else ""
    inner = value[len(quote) :]
    closing = quote if quote and inner.endswith(quote) else ""
    inner = inner[: len(inner) - len(closing)] if closing else inner
    if not inner or _PLAIN.match(inner):
        return found[0]
    return f"{head}{quote}{GONE}{closing}"


Rule = tuple[tuple[str, ...], re.Pattern[str], Callable[[re.Match[str]], str]]
_OWN_NAMES = (
    *("xox", "xapp-", "hooks.slack.com", "akia", "asia", "abia", "acca", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
    *("hf_", "sk-", "nvapi-", "aiza", "ya29.", "npm_", "pypi-", "dckr_pat_", "hvs.", "glsa_", "glc_", "gla_", "gsa_", "gsc_", "eyj"),
)
_RULES: tuple[Rule, ...] = (
    (("://",), _URL, _keep_head),
    (("authorization",), _HEADER, _keep_head),
    (("bearer", "basic"), _BEARER, _keep_head),
    (("cookie",), _COOKIE, _keep_head),
    (("wandb",), _WANDB, _keep_head),
    (('"auth"',), _DOCKER, _keep_head),
    (("pass", "pwd", "secret", "credential", "key", "token", "signature", "sas"), _ASSIGNED, _keep_head),
    (("--pass", "--token", "--secret", "--api", "-password", "-token", "-secret", "-api"), _FLAG, _keep_head),
    (("_key=", "_pat=", "_pass=", "_pwd=", "_auth=", "_creds=", "_token=", "_secret="), _ENV, _keep_head),
    (_OWN_NAMES, _TOKENS, lambda _: GONE),
)
"""What a line must hold (any of them, in lower case), pattern, replacement."""

_ALL = tuple(dict.fromkeys(needle for needles, _, _ in _RULES for needle in needles))
_NEEDLES = tuple(needle for needle in _ALL if not any(other in needle for other in _ALL if other != needle))
"""A line that holds `--token` holds `token`: the shorter needle finds it as well."""
_RULES_OF = {short: [n for n, (needles, _, _) in enumerate(_RULES) if any(short in needle for needle in needles)] for short in _NEEDLES}
"""Needle → the rules that may apply to a line with it."""
BLOCK = 4 << 20
"""Characters that are searched at a time, up to the next end of a line."""
_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}


def redact(text: str) -> str:
    """The text without its secrets."""
    for _ in range(6):  # taking one secret out may bring another pattern within its bounds; a second look is rare, a third unheard of
        clean = _once(text)
        if clean == text:
            return text
        text = clean
    return text


def _once(text: str) -> str:
    if "PRIVATE KEY" in text:
        text = _PEM.sub(lambda found: f"[redacted {found['what'].lower()}]", text)
    if '"MESSAGE"' in text:
        text = _BYTES.sub(_bytes, text)
    return "".join(_block(text[start:end]) for start, end in _blocks(text))


def _blocks(text: str) -> Iterator[tuple[int, int]]:
    """Whole lines, some megabytes at a time: a large log is not split into lines all at once."""
    start = 0
    while start < len(text):
        end = text.find("\n", start + BLOCK) + 1 or len(text)
        yield start, end
        start = end


def _block(text: str) -> str:
    """Machines print the same lines over and over, and nearly all of them hold no needle: each different line is searched once."""
    lowered = text.translate(_LOWER).split("\n")  # ASCII only, so that both have the same places
    suspects = _suspects("\n".join(dict.fromkeys(lowered)))
    if not suspects:
        return text
    lines = text.split("\n")
    for at, line in enumerate(lowered):
        if line in suspects:
            lines[at] = _line(lines[at], line, suspects[line])
    return "\n".join(lines)


def _suspects(lowered: str) -> dict[str, set[int]]:
    """Lines that may hold a secret, and the numbers of the rules that may find it."""
    found: dict[str, set[int]] = {}
    for needle, rules in _RULES_OF.items():
        for start, end in candidates(lowered, (needle,)) if needle in lowered else ():
            found.setdefault(lowered[start:end], set()).update(rules)
    return found


def _line(line: str, lowered: str, rules: set[int]) -> str:
    for number in sorted(rules):
        needles, pattern, replacement = _RULES[number]
        if any(needle in lowered for needle in needles) and (pattern is not _ASSIGNED or _assigns(lowered, needles)):
            line = pattern.sub(replacement, line)
    return line


def _assigns(lowered: str, needles: tuple[str, ...]) -> bool:
    """Whether something may be assigned to a secret's name; nothing is where no sign for it follows the first of the needles."""
    first = min(at for needle in needles if (at := lowered.find(needle)) >= 0)
    if lowered.find("=", first) < 0 and lowered.find(":", first) < 0:
        return False
    return _MAYBE_ASSIGNED.search(lowered, max(0, first - LONGEST_PREFIX)) is not None


def _bytes(found: re.Match[str]) -> str:
    """journald writes an unclean message as an array of bytes: a secret may hide there, so it is read before it is kept."""
    numbers = [int(number) for number in found[2].split(",") if number.strip().isdigit()]
    said = bytes(number for number in numbers if number < 256).decode("utf-8", "replace")
    clean = redact(said)
    return found[0] if clean == said else found[1] + json.dumps(clean)


_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
BLANKS = frozenset("\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000")
"""What looks like a space and is none."""
_SHOWS_NOTHING = BLANKS | frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0")
_VARIATIONS = ((0xFE00, 0xFE0F), (0xE0100, 0xE01EF))
"""Variation selectors: whole texts have been smuggled past readers in them."""
_ODD = re.compile(r"[^\x20-\x7e\n\t]")


def visible(text: str) -> str:
    """Control, bidi, zero-width and blank look-alike characters become their code, `‹U+202E›`, so that text shows what it holds; new lines
    and tabs stay."""
    return _ODD.sub(_spelled, text)


def _spelled(found: re.Match[str]) -> str:
    char = found[0]
    code = ord(char)
    varies = any(first <= code <= last for first, last in _VARIATIONS)
    return f"‹U+{code:04X}›" if varies or char in _SHOWS_NOTHING or unicodedata.category(char) in _INVISIBLE else char
