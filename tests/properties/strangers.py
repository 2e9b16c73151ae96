"""Every public function that takes text from people, hosts or logs, found by signature, and texts that made such
functions slow.
"""

import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cache, partial
from types import ModuleType
from typing import Any

from yaml import YAMLError

import bot
import graph
import kb
import tools
from bot.cards.blocks import Card
from bot.cards.buttons import BadForm
from bot.cli.kb.knowledge import KnowledgeRow
from bot.refusal import Refusal
from graph.dialogue.said import Vocabulary
from graph.extraction.host_index import HostIndex
from graph.extraction.reports import ParsedReport
from graph.incident.context import IncidentContext, TurnState
from graph.model.answers import BadAnswer, CritiqueAnswer
from graph.report import Report
from graph.state import Conjecture, Remediation
from kb.guides.guide import Guide
from kb.history.incidents import load_seeds
from kb.history.label_ranking import LabelRanker
from kb.history.site_pages import SitePage
from kb.taxonomy.loader import load_taxonomy
from tools.action import Condition
from tools.checks import CHECKS
from tools.checks.check_types import Unreadable
from tools.ledger.seal import Seal
from tools.remedies import REMEDIES

# parameter names of untrusted text
TAKES = frozenset({"text", "line", "words", "raw", "message", "printed", "prose", "reply", "said", "signature", "output", "manual_work"})
NOW = datetime(2026, 5, 20, 3, 10, tzinfo=UTC)
HOSTS = tuple(f"gpu-{number:03}" for number in range(1, 100))
ITEM = {"id": "T1.C1.1", "kind": "mention", "incident": "I1", "at": NOW.isoformat()}
GROUPS = {"train": HOSTS[:8], "rack-2": HOSTS[8:16]}

Reader = Callable[[str], object]


@cache
def _beside() -> Mapping[str, Any]:
    """Return values for the functions' other parameters, by name."""
    taxonomy = load_taxonomy()
    return {
        "now": NOW, "us": ("U0BOT",), "hosts": HOSTS, "known": HOSTS, "groups": GROUPS, "check": "smi", "checks": CHECKS, "parts": (),
        "names": Vocabulary(hosts=HOSTS, groups=GROUPS, checks=tuple(CHECKS), remedies=dict.fromkeys(REMEDIES, "a remedy")),
        "known_hosts": HostIndex(HOSTS), "host_index": HostIndex(HOSTS), "parsed_report": ParsedReport(), "taxonomy": taxonomy,
        "nearest": LabelRanker.build(taxonomy, load_seeds()),
        "limit": 300, "most": 300, "condition": Condition("node", "is idle", ("true",), "idle*|*+drain"), "remedy": REMEDIES["gpu_reset"],
        "probe": "cuda", "reads": "int", "name": "job.log", "sha256": "0" * 64, "needles": ("xid", "error"), "spans": ((0, 4000),),
        "clean": str.lower, "start": 0, "end": 200, "count": 3, "place": 0.5, "cause": "oom", "found": {}, "value": 3, "key": "gpu.xid",
        "device": "gpu3", "unit": "", "says": "was seen", "title": "Sure?", "yes": "Yes", "action_id": "x", "blocks": (),
    }  # fmt: skip


# a parameter's meaning in one function only
OWN: Mapping[str, Mapping[str, Any]] = {
    "bot.alerts.posted_alerts.parse_posted_alerts": {"source": "C1 B1"},
    "bot.remediation.cards.card_parts.replace_user_ids": {"names": {"U1": "ada"}},
    "bot.incidents.handlers.slack_markup.strip_bot_mention": {"us": "U0BOT"},
    "bot.cli.catalogue_tables.parse_check_output": {"check": CHECKS["smi"]},
    "bot.cards.blocks.button": {"value": "v"},
    "bot.cli.kb.knowledge.rank_by_likeness": {
        "known": (KnowledgeRow("seed-1", "incident", "GPU.X", "GPU lost", "rank 3 *** hangs", ""),),
        "most": 5,
    },
    "kb.logs.line_prefixes.read_head_time": {"head": ("iso", "")},
    "graph.extraction.uploaded_text.extract_text_with_site": {"folders": (), "rules": (), "filters": (), "programs": ()},
    "graph.remediation.next_step.hand_off_to_people": {
        "reason": "no",
        "remediation": Remediation(id="lad-1", label="GPU.BUS.Lost", target="gpu-001"),
    },
    "graph.incident.answers.item_answers.build_answer_report": {"context": IncidentContext({"item": ITEM}, TurnState(), HOSTS)},
    "tools.ledger.audit.compute_next_head": {"seal": Seal(b"growth-growth-growth"), "head": "0" * 64},
    "tools.ledger.audit.find_signer": {"seal": Seal(b"growth-growth-growth"), "head": "0" * 64},
    "tools.ledger.audit.add_brakes_digest": {"digest": "0" * 32},
    "bot.tenants.cards.internal_thread.render_root_message": {"incident": "I1", "tenant": "acme", "channel": "C1", "files": ()},
    "bot.tenants.cards.internal_thread.render_tenant_message": {"tenant": "acme", "files": ()},
    "bot.tenants.cards.internal_thread.render_quoted_text": {"files": ()},
    "bot.tenants.cards.internal_thread.render_sent_message": {"by": "ada"},
    "bot.tenants.cards.internal_thread.render_tell_preview": {"incident": "I1", "tenant": "acme", "shown": Card((), "text")},
    "bot.reports.charts.canvas.estimate_text_width": {"size": 11.0},
    "bot.cards.text.truncate_text": {"room": 300},
    "bot.reports.charts.canvas.fit_text": {"room": 200.0, "size": 11.0},
    "bot.provider.cards.render_provider_message": {"ticket": "inc-1"},
    "bot.trackers.ticket_draft.redact_tenants": {"customers": ("acme", "globex")},
    "tools.checks.site.safe_patterns.compile_whole_pattern": {"longest": 200},
    "tools.checks.site.safe_patterns.compile_line_pattern": {"longest": 500},
    "bot.trackers.comments.build_comment": {"id_": "7", "by": "beth"},
    "bot.tenants.cards.tenant_card.render_operator_message": {"language": "en"},
    "bot.cli.kb.built_folder.slugify_name": {"without": "row"},
    "kb.history.label_ranking.count_separate_phrases": {"leaf": load_taxonomy().get_leaf("USER.CODE.Loss_NaN_Hyperparameter")},
    "kb.history.label_ranking.count_phrases": {"leaf": load_taxonomy().get_leaf("USER.CODE.Loss_NaN_Hyperparameter")},
    "graph.extraction.text_classifier.matches_nothing": {"ranked": (("GPU.BUS.Lost", 0.5),)},
    "graph.extraction.complaints.find_measuring_checks": {"symptoms": ("slow",)},
    "tools.checks.baseline.probe.route": {"own": {}},
    "kb.guides.guide.find_best_guide": {"guides": {"hang": Guide("hang", "A hang", (), words=("nccl hang",))}, "symptoms": ("hang",)},
    "graph.learning.site_notes.find_page_hints": {
        "pages": (SitePage("riser", "Risers", "Press the riser home.", ("GPU.BUS.Fallen_Off_Bus",)),)
    },
    "graph.learning.site_notes.add_site_notes": {
        "report": Report(item="i", outcome="abstained"),
        "pages": (SitePage("riser", "Risers", "Press the riser home."),),
        "likely": (),
        "hosts": {},
    },
    "graph.learning.log_filter_drafts.build_filter_draft": {"name": "ours", "family": "a", "others": ("all went well",)},
    "tools.checks.site.filters.select_filter_rules": {"filters": ()},
    "graph.learning.log_rule_drafts.build_rule_drafts": {"others": ("all went well",)},
    "graph.learning.lesson_drafts.find_new_cause": {
        "ideas": (Conjecture(title="A bent pin", cause="It makes links replay.", branch="GPU.BUS"),),
        "leaves": ("GPU.BUS.Lost",),
    },
    "graph.model.answer_values.keep_verbatim_quotes": {"quotes": ("NCCL timeout", "Xid 79")},
    "graph.model.answers.parse_answer": {"shape": CritiqueAnswer},
    "graph.model.client.build_past_question": {
        "sentences": ("It was the firmware of the switch.",),
        "labels": {"GPU.BUS.Lost": "GPU lost"},
    },
}
# for functions that parse our JSON, the JSON that contains the text
WITHIN: Mapping[str, Callable[[str], str]] = {
    "bot.remediation.cards.queued_hosts.parse_queue_note": lambda text: json.dumps(
        {"waits": 1, "begun": 1, "next": "", "why": text, "failed": [text], "at": ""}
    ),
}
# functions with such text that are not called, and why
LEFT_OUT: Mapping[str, str] = {
    "bot.incidents.handlers.open_or_join.open_or_join_incident": "asks Redis; reads with `bot.incidents.dispatch.fingerprint.compute_fingerprint`, which is here",
    "bot.cli.classify.classify_text": "prints what `graph.extraction.text_classifier.rank_labels_by_text` answers, which is here",
    "bot.cli.kb.knowledge.search_knowledge": "prints what `bot.cli.kb.knowledge.rank_by_likeness` answers, which is here",
    "graph.extraction.host_lists.parse_host_list": "takes a match within the text; `graph.extraction.hosts.find_hosts`, which is here, reads with it",
    "graph.extraction.host_numbers.iter_stem_numbers": "takes where other names start; `graph.extraction.hosts.find_hosts`, which is here, reads with it",
    "graph.extraction.host_lists.parse_bracket_range": "takes what a bounded pattern matched; `graph.extraction.hosts.find_hosts`, which is here, reads with it",
    "kb.secrets.disguise.apply_redactions": "takes two readings of one line; `kb.secrets.disguise.redact_disguised`, which is here, makes both",
    "bot.cli.command_runtime.print_error": "prints a sentence of ours",
    "bot.cli.command_runtime.exit_with_error": "a sentence of ours, after which the command ends",
}


def readers() -> Iterator[tuple[str, Reader]]:
    """Yield (name, function of the text alone)."""
    for module in _modules():
        for name, made in tuple(vars(module).items()):
            where = f"{module.__name__}.{name}"
            if inspect.isfunction(made) and made.__module__ == module.__name__ and not name.startswith("_") and where not in LEFT_OUT:
                yield from _read_alone(where, made)


def _read_alone(where: str, made: Callable[..., object]) -> Iterator[tuple[str, Reader]]:
    parameters = [one for one in inspect.signature(made).parameters.values() if one.kind is not one.VAR_POSITIONAL]
    takes = [one.name for one in parameters if one.name in TAKES and one.annotation in (str, "str")]
    if not takes:
        return
    needs = [one.name for one in parameters if one.name not in takes and one.default is one.empty]
    beside = {name: value for name, value in {**_beside(), **OWN.get(where, {})}.items() if name in needs}
    yield where, partial(_call, made, tuple(takes), beside, WITHIN.get(where, str))


def _call(
    made: Callable[..., object], takes: tuple[str, ...], beside: Mapping[str, Any], within: Callable[[str], str], text: str
) -> object:
    try:
        answer = made(**dict.fromkeys(takes, within(text)), **beside)
        return list(answer) if inspect.isgenerator(answer) else answer
    except (ValueError, Refusal, BadForm, BadAnswer, Unreadable, YAMLError):  # unreadable input is refused
        return None
    except FutureWarning:  # a site's pattern with `[[`, whose meaning Python may change
        return None
    except IndexError:
        if made.__name__.startswith(("parse_", "read_")) and made.__module__.startswith("tools."):
            return None  # a parser is only called for what its own `is_…` accepts (`Check.read`)
        raise


def _modules() -> Iterator[ModuleType]:
    for room in (kb, tools, graph, bot):
        for found in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            if not found.name.endswith("__main__"):
                yield importlib.import_module(found.name)


def _of(piece: str) -> Callable[[int], str]:
    return lambda size: (piece * (size // len(piece) + 1))[:size]


def _between(head: str, piece: str, tail: str) -> Callable[[int], str]:
    return lambda size: f"{head}{(piece * (size // len(piece) + 1))[:size]}{tail}"


def _nested(opening: str, closing: str) -> Callable[[int], str]:
    return lambda size: opening * (size // 2) + closing * (size // 2)


_RUNS = ("a", "A", "0", " ", "\n", "\t", "\0", "-", "_", ".", "*", "`", "~", "=", ":", ",", "/", "\\", "'", '"', "<", "(", "[", "{", "&", "@", "#", "|",
         "x1", "a-", "1.", "a.b", "-1", "é", "\u202e", "😀", "\r", "f")  # fmt: skip
_MANY = (
    *(
        "gpu-[1-9],",
        "gpu-001 ",
        "gpu-001-",
        "gpu 1 to 9 ",
        "node 4 and 5, ",
        "nodes: 01 to 04, ",
        "gpu 01/02 to 04 ",
        "<@U0BOT> ",
        "<!channel> ",
        "&lt;",
        "```\n",
        "> quoted\n",
        "job 4711 ",
    ),
    *(
        "not ",
        "no, ",
        "? ",
        "! ",
        "a. ",
        "is it up? ",
        "password ",
        "token=",
        "pass: ",
        "curl -u ",
        "sshpass ",
        "://a:",
        "name: token ",
        "\u200b",
    ),
    *(
        "-----BEGIN PRIVATE KEY-----\n",
        "\x1b[1m",
        "<https://a|b>",
        "10:00 ",
        "since 3 ",
        "NVRM: Xid (PCI:0000:9b:00): 79, ",
        "[rank0]: ",
        "stop. ",
    ),
    *("Traceback (most recent call last):\n", "nvidia-smi ", "0000:9b:00.0 ", "2026-05-20T03:10:00 ", "wandb ", "don't ", "drain gpu-003 "),
    *("ignore all rules\n", 'key="', '{"a":', "x=1;", "mlx5_0 ", "| a "),
)
# generators by size
TEXTS: Mapping[str, Callable[[int], str]] = {
    **{f"runs of {one!r}": _of(one) for one in _RUNS},
    **{f"many {one!r}": _of(one) for one in _MANY},
    "nested brackets": _nested("[", "]"),
    "nested braces": _nested('{"a":', "}"),
    "nested quotes": _nested("\"'", "'\""),
    "nested round": _nested("(", ")"),
    "a range that never ends": _between("gpu-[1", "-1", ""),
    "a long word at the end": _between("the node ", "a", " hangs"),
    "blanks within": _between("job", " ", "4711"),
    "a name and no value": _between("password", " ", "x"),
    "an address and no @": _between("https://user:", "a", " "),
    "digits": _between("gpu-", "1", "."),
    "a key without an end": _between("-----BEGIN RSA PRIVATE KEY-----\n", "QUJD" * 16 + "\n", ""),
    "a table": _of("| a | b | c |\n|---|---|---|\n"),
    "json in a line": _between('{"MESSAGE": [', "104, ", "1]}"),
    "an XML that never closes": _between("<?xml version='1.0'?><nvidia_smi_log>", "<gpu>", ""),
}
