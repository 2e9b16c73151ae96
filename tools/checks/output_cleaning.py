"""Strip terminal colours, ssh, sudo and shell noise, and pasted prompts around a program's output."""

import re

_ESCAPE_PATTERN = re.compile(r"\x1b(?:\[[0-?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)|[@-Z\\^_]|[()][0-9A-B])")
_NOISE_PATTERN = re.compile(
    r"sudo: unable to resolve host .{0,200}"
    r"|Warning: Permanently added .{1,200} to the list of known hosts\.?"
    r"|(?:/bin/|-)?(?:ba|da|z|k)?sh: (?:line \d{1,4}: )?warning: setlocale: .{0,200}"
    r"|Connection to \S{1,253} closed\.?"
    r"|X11 forwarding request failed.{0,80}"
    r"|mesg: (?:ttyname failed|cannot open).{0,80}|stdin: is not a tty"
)
_PROMPT_PATTERN = re.compile(r"(?:\([\w.-]{1,40}\) )?\[?[a-z_][\w.-]{0,31}@[\w.-]{1,64}(?::| )[\w~/.+-]{0,200}\]? ?[#$](?: .{0,400})?")
_MAX_NOISE_LINES = 12


def clean_output(text: str) -> str:
    text = text.removeprefix("\ufeff")
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
    if "\x1b" in text:
        text = _ESCAPE_PATTERN.sub("", text)
    if "\0" in text:
        text = text.replace("\0", "")
    return _strip_tail(_strip_head(text))


def _is_noise(line: str) -> bool:
    line = line.strip()
    return bool(_NOISE_PATTERN.fullmatch(line) or _PROMPT_PATTERN.fullmatch(line))


def _strip_head(text: str) -> str:
    start = keep = 0
    for _ in range(_MAX_NOISE_LINES):
        end = text.find("\n", start)
        line = text[start : end if end >= 0 else len(text)]
        if line.strip() and not _is_noise(line):
            break
        start = end + 1 if end >= 0 else len(text)
        keep = start if line.strip() else keep
        if end < 0:
            break
    return text[keep:]


def _strip_tail(text: str) -> str:
    end = keep = len(text)
    for _ in range(_MAX_NOISE_LINES):
        start = text.rfind("\n", 0, end) + 1
        line = text[start:end]
        if line.strip() and not _is_noise(line):
            break
        keep = start if line.strip() else keep
        if start == 0:
            break
        end = start - 1
    return text[:keep]
