"""Safety bugs in an incident's path; the state machine of incidents must catch each."""

import contextlib
import io
import os
import secrets

from hypothesis import HealthCheck, Phase, Verbosity, settings

from bot.cards.text import _escape_mrkdwn, _make_visible, _require_slack_id
from graph.engine.assessment import Assessment, cite_evidence
from graph.engine.belief import Belief, _weigh_clues, compute_beliefs
from graph.engine.coverage import Coverage
from graph.engine.priors import compute_model_priors, compute_past_priors
from graph.engine.verdict import judge_label
from graph.extraction.pasted_text import store_attachments
from graph.incident.conclude import _compute_costs
from graph.incident.reasoning_check import verify_conclusion
from graph.model.budget import Budget
from graph.model.client import CircuitBreaker, ModelReasoner
from graph.remediation.build import build_approval_id
from graph.remediation.outcomes import _request_return
from graph.remediation.plan_steps import _find_pci_address
from graph.remediation.state_machine import _handle_done, _handle_failed
from tests.properties.incident_machine import STORIES, live
from tests.properties.mutation import Edit, Mutant, run_mutant, unchanged
from tools.checks.check_types import _fill_word
from tools.nodekit.generate import _render_arguments, _render_kind_tests
from tools.remedies.remedy import check_args
from tools.ssh.batch import BatchCommand
from tools.ssh.client import build_remote_command

MACHINE_SETTINGS = settings(
    max_examples=1,
    stateful_step_count=1,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    report_multiple_bugs=False,
    print_blob=False,
    verbosity=Verbosity.quiet,
    suppress_health_check=list(HealthCheck),
)

INCIDENT_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a slot takes whatever it is given",
        "I1",
        (Edit(_fill_word, "not re.fullmatch(SLOT_PATTERNS[name], slot_value) or '..' in slot_value", "False"),),
    ),
    Mutant("a path may lead out of its folder", "I1", (Edit(_fill_word, "'..' in slot_value", "False"),)),
    Mutant("a command's words are not quoted", "I1", (Edit(build_remote_command, "shlex.join", '" ".join'),)),
    Mutant(
        "the words of commands that share a session are quoted once too seldom",
        "I1",
        (Edit(BatchCommand.shell_word, "shlex.join", "' '.join"),),
    ),
    Mutant("the kit takes any argument", "I1", (Edit(_render_arguments, "'is_'", "': is_'"),)),
    Mutant(
        "the kit takes an argument that only begins well",
        "I1",
        (
            Edit(
                _render_kind_tests,
                "f\"  case $1 in {' | '.join(kind.admits)}) return 0 ;; esac\"",
                "f\"  case $1 in {'* | '.join(kind.admits)}*) return 0 ;; esac\"",
            ),
            Edit(_render_kind_tests, "f'  [ \"${{#1}}\" -le {kind.longest} ] || return 1'", "f'  : \"${{#1}}\" -le {kind.longest} '"),
        ),
    ),
    Mutant(
        "a tenant's words convict a machine",
        "I13",
        (
            Edit(Belief.deciding, "can_be_proven_by_text(self.leaf) or (m.fact.host and not is_tenant_writable(m.fact.key))", "True"),
            Edit(_weigh_clues, "max(-MAX_LOW_TRUST_LOG_ODDS, min(low_trust_cap, doubted))", "doubted"),
        ),
    ),
    Mutant(
        "whatever a host calls an address reaches the command",
        "I13",
        (
            Edit(_find_pci_address, "re.fullmatch(ARGUMENT_KINDS['bdf'].pattern, address)", "address"),
            Edit(check_args, "not re.fullmatch(ARGUMENT_KINDS[kind].pattern, value)", "False"),
        ),
    ),
    Mutant(
        "angle brackets are not escaped",
        "I14",
        (Edit(_escape_mrkdwn, "text.replace('&', '&amp;').replace('<', '&lt;').replace('>', '&gt;')", "text.replace('&', '&amp;')"),),
    ),
    Mutant(
        "addresses can be clicked",
        "I14",
        (
            Edit(
                _make_visible,
                "defang(show_invisible(text[:MAX_READ_CHARS].replace('\\r\\n', '\\n').translate(SPACE_TRANSLATION)))",
                "show_invisible(text[:MAX_READ_CHARS].replace('\\r\\n', '\\n').translate(SPACE_TRANSLATION))",
            ),
        ),
    ),
    Mutant(
        "what hides stays hidden",
        "I14",
        (
            Edit(
                _make_visible,
                "show_invisible(text[:MAX_READ_CHARS].replace('\\r\\n', '\\n').translate(SPACE_TRANSLATION))",
                "text[:MAX_READ_CHARS].replace('\\r\\n', '\\n').translate(SPACE_TRANSLATION)",
            ),
        ),
    ),
    Mutant("anything can be mentioned", "I14", (Edit(_require_slack_id, "not SLACK_ID_PATTERN.fullmatch(value)", "False"),)),
    Mutant("a report's secrets are kept", "I14", (Edit(store_attachments, "redact(strip_fences(item.text))", "strip_fences(item.text)"),)),
    Mutant(
        "a cause that was not offered is taken",
        "I16",
        (Edit(ModelReasoner.extract_report, "require_offered([cause.cause for cause in answer.causes], ids, 'cause')"),),
    ),
    Mutant(
        "a look that was not offered is taken for an idea",
        "I16",
        (Edit(ModelReasoner.propose_ideas, "require_offered(idea.looks, ids['Looks'], 'look')"),),
    ),
    Mutant("an answer that cannot be read ends the turn", "I16", (Edit(ModelReasoner._ask, "BadAnswer", "ZeroDivisionError"),)),
    Mutant("a budget refuses nothing", "I16", (Edit(Budget.find_refusal, "spent.calls >= self.calls", "False"),)),
    Mutant(
        "an endpoint that fails is asked on and on", "I16", (Edit(CircuitBreaker.record_result, "self._failures >= self.trips", "False"),)
    ),
    Mutant(
        "a model's word proves a cause",
        "I16",
        (
            Edit(Belief.proven, "bool(self.deciding)", "True"),
            Edit(judge_label, "roots[0].deciding[0].says", "'somebody says so'"),
            Edit(
                compute_beliefs,
                "max(-MAX_TEXT_LOG_ODDS, min(MAX_TEXT_LOG_ODDS, priors.get(leaf.label, 0.0)))",
                "priors.get(leaf.label, 0.0)",
            ),
            Edit(compute_model_priors, "MODEL_LOG_ODDS", "30.0"),
            Edit(verify_conclusion, "not verification.broken", "True"),
        ),
    ),
    Mutant(
        "a lesson proves a cause",
        "I30",
        (
            Edit(Belief.proven, "bool(self.deciding)", "True"),
            Edit(judge_label, "roots[0].deciding[0].says", "'somebody says so'"),
            Edit(
                compute_beliefs,
                "max(-MAX_TEXT_LOG_ODDS, min(MAX_TEXT_LOG_ODDS, priors.get(leaf.label, 0.0)))",
                "priors.get(leaf.label, 0.0)",
            ),
            Edit(compute_past_priors, "SIMILAR_INCIDENT_LOG_ODDS", "20.0"),
            Edit(verify_conclusion, "not verification.broken", "True"),
        ),
    ),
    Mutant(
        "what nobody could look at is well",
        "I17",
        (
            Edit(Coverage.list_unobserved_checks, "sorted(self.unobserved.items())", "()"),
            Edit(
                judge_label,
                "return replace(build_verdict('inconclusive', f'could not look: {unobserved[0]}'), unobserved_hosts=coverage.list_unobserved_hosts(leaf))",
            ),
        ),
    ),
    Mutant(
        "what nobody could look for is ruled out",
        "I17",
        (
            Edit(
                judge_label,
                "return replace(build_verdict('inconclusive', f'could not look: {unobserved[0]}'), unobserved_hosts=coverage.list_unobserved_hosts(leaf))",
            ),
        ),
    ),
    Mutant("a failed look is not said", "I17", (Edit(Assessment.list_unobserved, "reasons_by_check[host][check] = reason"),)),
    Mutant("evidence loses the digest of its output", "I17", (Edit(cite_evidence, "fact.sha256", "''"),)),
    Mutant("evidence is cited of another host", "I17", (Edit(cite_evidence, "host=fact.host", "host='n3'"),)),
    Mutant("two proofs are averaged", "I18", (Edit(_weigh_clues, "sum(trusted)", "sum(trusted) / max(1, len(trusted))"),)),
    Mutant(
        "a tenant's word outweighs a machine's",
        "I18",
        (Edit(_weigh_clues, "max(-MAX_LOW_TRUST_LOG_ODDS, min(low_trust_cap, doubted))", "doubted"),),
    ),
    Mutant(
        "a difference to peers alone accuses a host",
        "I18",
        (Edit(_weigh_clues, "min(log_odds, MAX_DIFFERENCE_LOG_ODDS) if _has_only_differences(matches) else log_odds", "log_odds"),),
    ),
    Mutant("what did not help counts as mended", "I20", (Edit(_handle_done, "event.outcome not in PASSED_OUTCOMES", "False"),)),
    Mutant("a node returns beside a fix that failed", "I20", (Edit(_request_return, "UNRESOLVED_OUTCOMES", "()"),)),
    Mutant(
        "a command that failed is followed by the way back",
        "I20",
        (Edit(_handle_failed, "escalate_remediation(remediation, reason, plan)", "enter_next_step(remediation, plan)"),),
    ),
    Mutant(
        "each look at a ladder makes up another action",
        "I22",
        (
            Edit(
                build_approval_id,
                "f'apr-{hashlib.sha256(text.encode()).hexdigest()[:12]}'",
                '"apr-" + token_hex(6)',
                {"token_hex": secrets.token_hex},
            ),
        ),
    ),
    Mutant(
        "how sure it is is drawn by lot",
        "I22",
        (
            Edit(
                Assessment.build_hypothesis,
                "min(verdict.confidence, MAX_CONTESTED_CONFIDENCE) if hides or rivals else verdict.confidence",
                "verdict.confidence - urandom(1)[0] / 9999",
                {"urandom": os.urandom},
            ),
        ),
    ),
    Mutant("a turn reads the machine's own clock", "I22", (Edit(_compute_costs, "graph_context.clock.now", "datetime.now().astimezone"),)),
)


def complaint(*stories: str) -> str:
    """Return the machine's complaint when started with these stories, or ""."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            live(MACHINE_SETTINGS, stories)
    except Exception as error:  # any exception is a complaint
        return f"{type(error).__name__}: {error}"
    return ""


def kill(mutant: Mutant) -> str:
    """Return the machine's complaint when started with the broken invariant's story, or "" if the bug survives."""
    story = next(story for story in STORIES if story.startswith(f"{mutant.breaks.lower()}_"))
    return run_mutant(mutant, lambda: complaint(story))


def control() -> str:
    """Return the machine's complaint about the product without a bug."""
    return run_mutant(unchanged(INCIDENT_MUTANTS), lambda: complaint(*STORIES))
