"""Filter rules for regular lines (start-up, progress, metrics).

They see the lower-case template; trouble is never dropped.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

TROUBLE_PATTERN = re.compile(  # of text in lower case
    r"error|fail|exception|traceback|warn|fatal|panic|abort|timeout|timed out|kill|refus|denied|corrupt|mismatch|invalid|unable|cannot|"
    r"could not|not found|no such|unreachable|lost|reset by|oom|out of memory|hang|stuck|\bbad\b|\bxid\b|\bnan\b|\binf\b|disabled|degraded|retry|throttl"
)


@dataclass(frozen=True, slots=True)
class FilterRule:
    """One rule. `name` labels the dropped count; a match holds one of `needles`, if given."""

    name: str
    pattern: re.Pattern[str]
    needles: tuple[str, ...] = ()

    def drops(self, lowered: str) -> bool:
        return (not self.needles or any(map(lowered.__contains__, self.needles))) and self.pattern.search(lowered) is not None


def build_exact_rule(name: str, template: str) -> FilterRule:
    """Return a rule that drops exactly this template."""
    lowered = template.lower()
    return FilterRule(name, re.compile(re.escape(lowered) + r"\Z"), (lowered,))


def _build_rule(name: str, pattern: str, *needles: str) -> FilterRule:
    return FilterRule(name, re.compile(pattern), needles)


FILTERS: tuple[FilterRule, ...] = (
    _build_rule("progress", r"<n>%\|| \[<time><<time>, |<n>it/s|<n>s/it|it \[<n>:<n>|\|<bar>\|",
          "<n>%|", " [<time><<time>, ", "<n>it/s", "<n>s/it", "it [<n>:<n>", "|<bar>|"),
    _build_rule("metrics", r"\b(?:iter(?:ation)?s?|steps?|epochs?|batch|global[_ ]step)\b.{0,400}"
                     r"\b(?:loss|lr|learning[_ ]rate|ppl|perplexity|grad|acc(?:uracy)?|elapsed|throughput)",
          "iter", "step", "epoch", "batch"),
    _build_rule("metrics", r"\b(?:train|eval|val|lm)[_ ]?loss\b|'loss': |\"loss\": ", "loss"),
    _build_rule("throughput", r"<n> ?(?:samples|tokens|examples|images|seq|it|steps?)(?: ?/ ?s\b| per sec| ?/ ?sec)|\b[tg]flop",
          "/s", "/ s", " per sec", "flop"),
    _build_rule("memory report", r"\b(?:max )?(?:mem(?:ory)?|cache) ?(?:allocated|reserved|usage)\b", "allocated", "reserved", "usage"),
    _build_rule("nccl info", r"nccl info ", "nccl info "),
    _build_rule("debug", r"\b(?:debug|trace)\b|\[d<n>", "debug", "trace", "[d<n>"),
    _build_rule("start-up", r"^\S{0,60} ?(?:\[?info\]?:? )?.{0,80}\b(?:initializ(?:ed|ing)|loading|loaded|building|built|compiling|setting up|"
                      r"registering|registered|creating|created|"
                      r"using world size|number of parameters|using (?:device|torch|cuda)|installing|collecting|downloading|unpacking|setting)\b",
          "initializ", "load", "buil", "compiling", "setting", "register", "creat", "using ", "number of parameters", "installing",
          "collecting", "unpacking"),
    _build_rule("checkpoint", r"\b(?:saving|saved|successfully saved|writing|wrote)\b.{0,60}\b(?:checkpoint|ckpt|state)", "checkpoint", "ckpt", "state"),
    _build_rule("heartbeat", r"\b(?:heartbeat|health ?check|keepalive|get /(?:health|metrics))\b", "heartbeat", "health", "keepalive", "get /"),
    _build_rule("configuration", r"^\s*[\w.]{2,60} ?\.{3,}|^\s*--[\w-]{2,60}[ =]", "...", "--"),
)  # fmt: skip


def find_dropping_rule(template: str, rules: Sequence[FilterRule] = FILTERS) -> str | None:
    """Return the rule's name; None to keep the template."""
    lowered = template.lower()
    if TROUBLE_PATTERN.search(lowered):
        return None
    return next((rule.name for rule in rules if rule.drops(lowered)), None)
