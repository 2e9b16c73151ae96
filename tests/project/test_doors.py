"""Every place through which text leaves the product. A new one must be listed here with the reason why no secret passes
it, or the test fails.

Places are found in the syntax tree: a client's writing methods, files opened for writing, constructed clients.
`tests/bench_itself/test_planted_secrets.py` tests what flows through them.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache

import pytest

from tests.project.size import ROOT

FLOORS = ("bot", "graph", "tools", "kb")

# For each kind of place: the calls, and the modules allowed to make them with the reason why their text is clean.
REDIS = frozenset(
    {"append", "eval", "evalsha", "execute_command", "getset", "hincrby", "hincrbyfloat", "hmset", "hset", "hsetnx", "incr", "linsert", "lpush",
     "lset", "mset", "psetex", "publish", "register_script", "restore", "rpush", "sadd", "set", "setex", "setnx", "xadd", "zadd", "zincrby"}
)  # fmt: skip
HOLDS_REDIS = ("redis", "pipe", "client")  # names of variables that speak to Redis
WRITERS: Mapping[str, str] = {
    "bot/remediation/action_index.py": "ids and times",
    "bot/alerts/alert_store.py": "alerts, whose every text `bot.alerts.alert.clean_label_text` redacted",
    "bot/incidents/dispatch/lease_renewer.py": "the lease, by id",
    "bot/incidents/dispatch/cause_ownership.py": "labels and ids",
    "bot/incidents/dispatch/metrics_store.py": "ids and times",
    "bot/incidents/dispatch/inbox.py": "`_element` gives each item whole to `redact_stored_data`",
    "bot/incidents/dispatch/lease.py": "ids and times",
    "bot/incidents/dispatch/thread_activity.py": "ids and times",
    "bot/provider/intake.py": "signs of messages that were heard, and counts",
    "bot/provider/ticket_documents.py": "`graph.ticket_export.received_ticket` redacts a ticket of a customer's whole",
    "bot/provider/provider_updates.py": "redacts what people tell a customer",
    "bot/store/baselines.py": "rows of the baseline, read from an output that was cleaned whole",
    "bot/lessons/store.py": "`kb.history.lessons.shorten_text` redacts each text of a draft, of an edit and of a file",
    "bot/slack/posted_messages.py": "ids, times and signs of what was posted, and rows of the ledger that `approval_view` redacts",
    "bot/store/closed_incidents.py": "it only removes",
    "bot/store/closed_incident_index.py": "the report of a state that was clean when it was stored; "
    "a row of a report, whole through `redact_stored_data`",
    "bot/store/replay_guard.py": "signs of messages that were heard",
    "bot/store/model_costs.py": "numbers",
    "bot/store/external_outbox.py": "documents that `graph.ticket_export.pseudonymizer` or `bot.trackers.ticket_draft` cleaned, and why one did not arrive: "
    "`bot.provider.link` and `bot.trackers.http` redact what others said",
    "bot/store/channel_sharing.py": "ids of channels",
    "bot/store/slack_rate_slots.py": "times",
    "bot/store/quota_usage.py": "ids, times and numbers",
    "bot/store/quota_waiting_list.py": "ids, times and names of limits",
    "bot/store/store.py": "a number",
    "graph/checkpoints/checkpoint.py": "`_dump` gives every value to `redact_stored_data`, whoever wrote what is in it; what a step raised passes `said_by`",
    "tools/ledger/journal.py": "`book` redacts words of people; outputs never get there",
}
# modules that handle words of people, hosts, sites or a model, and the redaction function of `kb.redact` they use
CLEANS: Mapping[str, str] = {
    "bot/alerts/alert.py": "redact_to_line",
    "bot/incidents/dispatch/dispatcher.py": "redact_stored_data",
    "bot/incidents/dispatch/inbox.py": "redact_stored_data",
    "bot/provider/provider_updates.py": "redact_start",
    "bot/app/logs.py": "redact_data",
    "bot/slack/client.py": "redact_data",
    "bot/store/closed_incident_index.py": "redact_stored_data",
    "graph/ticket_export/received_ticket.py": "redact",
    "graph/checkpoints/checkpoint.py": "redact_stored_data",
    "graph/model/client.py": "redact_once",
    "graph/model/embeddings.py": "redact_once",
    "kb/exports/row.py": "redact_once",
    "kb/guides/loader.py": "redact_once",
    "kb/history/index.py": "redact_once",
    "kb/history/lessons.py": "redact_once",
    "tools/evidence.py": "redact_once",
    "tools/ledger/manual_brakes.py": "redact",
}
FUNCTIONS = ("redact", "redact_once", "redact_start", "redact_to_line", "redact_data", "redact_stored_data")
CUT_FIRST: Mapping[str, str] = {}  # modules that cut or join text before redaction, and why no half secret passes
# slack_sdk clients without redaction
BARE_SLACK: Mapping[str, str] = {
    "bot/slack/installation.py": "asks who we are",
    "bot/slack/registry.py": "bolt wants one; nothing is sent with it",
}
HTTP: Mapping[str, str] = {
    "bot/provider/link.py": "a ticket's document, whose every text `graph.ticket_export.pseudonymizer` cleaned and somebody was shown",
    "bot/trackers/http.py": "drafts that `bot.trackers.ticket_draft` redacted line by line and somebody was shown",
    "bot/incidents/handlers/files.py": "fetches what people attached",
    "bot/policy/on_call.py": "asks a schedule who is on call, and sends nothing",
    "bot/cli/doctor/command.py": "tries the app's token",
}
FILES: Mapping[str, str] = {
    "bot/store/retention.py": "numbers",
    "bot/store/open_ledger.py": "the ledger's own key, in a file for its owner alone",
    "bot/store/ledger_signing_keys.py": "the ledger's keys, older ones among them, in a file for its owner alone",
    "bot/store/private_redis.py": "settings of a Redis of our own",
    "bot/cli/answer_files.py": "outputs as the evidence store keeps them, which are redacted; pictures of cleaned words; `finished` pages",
    "bot/cli/kb/build_command.py": "rows of `kb.exports`, which redacts each text as it reads it",
    "bot/cli/kb/built_folder.py": "drafts as they stand in a built folder, in a file that lives for one question; "
    "`keep` redacts each text of what somebody decided, `add` what was typed, `kb.exports` what was read for a build",
    "bot/cli/kb/rule_command.py": "drafts of rules, whose lines `graph.learning.log_rule_drafts` redacted, in a file that lives for one question",
    "bot/cli/kb/lesson_commands.py": "lessons, which `kb.history.lessons.shorten_text` redacted before they were kept",
    "graph/dialogue/train.py": "weights and common words of the phrases that are committed; no message of people",
    "graph/model/recording.py": "answers of a model, cleaned as they are recorded; no question",
    "bot/cli/explain.py": "a drawing of a reasoning that the evidence store redacted as it kept it",
    "bot/cli/look.py": "a picture of numbers",
    "bot/cli/node_kit.py": "scripts made of the catalogues",
    "bot/cli/setup/init_command.py": "files of settings that somebody just typed in, for themselves",
    "bot/cli/picture.py": "a drawing of facts of redacted text and of a timeline of redacted words",
    "bot/cli/incident_report.py": "`bot.reports.page.sanitize_page` redacts every text of a page",
    "bot/cli/ticket.py": "`graph.ticket_export.pseudonymizer` cleans every text of a ticket",
    "tools/process_pool.py": "a pipe to the process that it is a copy of",
    "tools/evidence.py": "`redact_once`, or `RedactedText` already",
    "tools/ssh/keys.py": "a key pair that is made for the site",
}


def test_redis_is_written_by_those_who_say_why_it_is_clean() -> None:
    assert modules_with("writes to Redis") <= WRITERS.keys()


@pytest.mark.parametrize(("module", "function"), CLEANS.items())
def test_what_comes_through_a_door_passes_the_one_function(module: str, function: str) -> None:
    assert f"cleans with {function}" in doors_by_module()[module]


def test_no_text_is_cut_or_joined_before_it_is_clean() -> None:
    """No rule recognises half a token or a key joined into one line: `redact_start` and `redact_to_line` cut and join
    after redaction.
    """
    assert modules_with("cuts before it cleans", "joins before it cleans") == CUT_FIRST.keys()


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ("redact(text[:80])", True),
        ("redact_once(' '.join(text.split()))", True),
        ("redact(text)[:80]", False),
        ("redact_start(text, 80)", False),
        ("' '.join(redact_once(text).split())", False),
        ("redact(rows[0])", False),
    ],
)
def test_a_cut_before_would_be_seen(line: str, *, is_one: bool) -> None:
    assert bool({"cuts before it cleans", "joins before it cleans"} & set(_doors(ast.parse(line)))) is is_one


def test_slack_is_told_through_one_client_that_cleans() -> None:
    assert modules_with("AsyncWebClient") == BARE_SLACK.keys()
    assert modules_with("subclass of AsyncWebClient") == {"bot/slack/client.py"}


def test_nothing_else_speaks_http() -> None:
    speaks = ("urlopen", "ClientSession", "AsyncClient", "Client", "Session", "AsyncWebhookClient", "WebhookClient", "WebClient")
    assert modules_with(*speaks) == HTTP.keys()


def test_files_are_written_by_those_who_say_why_they_are_clean() -> None:
    assert modules_with("writes to a file") <= FILES.keys()


def test_a_model_is_asked_in_one_place() -> None:
    assert modules_with("ChatOpenAI") == {"graph/model/endpoint.py"}
    assert modules_with("OpenAIEndpoint") == {"graph/model/client.py"}
    assert modules_with("OpenAI", "AsyncOpenAI") == {"graph/model/embeddings.py"}


def test_knowledge_is_indexed_in_one_place() -> None:
    assert modules_with("QdrantClient", "AsyncQdrantClient", "upsert", "upload_points") == {"kb/history/index.py"}


def test_logs_are_written_by_structlog_alone() -> None:
    assert modules_with("getLogger", "basicConfig", "PrintLoggerFactory", "StreamHandler") <= {"bot/app/logs.py"}


@pytest.mark.parametrize("reasons", [WRITERS, FILES], ids=["Redis", "files"])
def test_no_reason_is_given_for_what_is_not_there(reasons: Mapping[str, str]) -> None:
    assert reasons.keys() <= modules_with("writes to Redis", "writes to a file")


@pytest.mark.parametrize(
    ("line", "is_one"),
    [
        ("await self._redis.hset(key, 'a', text)", True),
        ("pipe.set(key, text)", True),
        ("stop.set()", False),
        ("self._cards.set(incident, 'x', 'y')", False),
    ],
)
def test_a_new_door_would_be_seen(line: str, *, is_one: bool) -> None:
    [call] = [node for node in ast.walk(ast.parse(f"async def f():\n  {line}")) if isinstance(node, ast.Call)]
    assert _to_redis(call) is is_one


def modules_with(*doors: str) -> set[str]:
    """Return the modules with one of these: a called name, a base class, or a kind of writing."""
    return {where for where, found in doors_by_module().items() if not found.isdisjoint(doors)}


@cache
def doors_by_module() -> Mapping[str, frozenset[str]]:
    """Return each product module's findings. Syntax trees are not kept: together they take 100 MB."""
    paths = [path for floor in FLOORS for path in sorted((ROOT / floor).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): frozenset(_doors(ast.parse(path.read_text()))) for path in paths}


def _doors(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield from (f"subclass of {ast.unparse(base)}" for base in node.bases)
        elif isinstance(node, ast.Call):
            yield _named(node)
            yield from _cleaning(node)
            if _to_redis(node):
                yield "writes to Redis"
            if _to_file(node):
                yield "writes to a file"


def _named(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id if isinstance(call.func, ast.Name) else ""


def _cleaning(call: ast.Call) -> Iterator[str]:
    if _named(call) not in FUNCTIONS or not call.args:
        return
    yield f"cleans with {_named(call)}"
    within = list(ast.walk(call.args[0])) if _named(call) in ("redact", "redact_once") else []
    if any(isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) for node in within):
        yield "cuts before it cleans"
    if any(isinstance(node, ast.Call) and _named(node) == "split" for node in within):
        yield "joins before it cleans"


def _to_redis(call: ast.Call) -> bool:
    on = ast.unparse(call.func.value).lower() if isinstance(call.func, ast.Attribute) else ""
    return _named(call) in REDIS and on.rpartition(".")[2].strip("_").endswith(HOLDS_REDIS)


def _to_file(call: ast.Call) -> bool:
    if _named(call) in ("write_text", "write_bytes"):
        return True
    modes = [arg.value for arg in [*call.args, *(word.value for word in call.keywords)] if isinstance(arg, ast.Constant)]
    return _named(call) in ("open", "fdopen") and any(
        isinstance(mode, str) and set(mode) & set("wax+") and len(mode) <= 3 for mode in modes
    )
