"""Safety bugs in scope and identity: which hosts an incident may show, and who a person is. The story beside each must
catch it.
"""

from bot.incidents.context import HandlerContext
from bot.policy.channels import find_tenant_channel, parse_person, require_colleague
from bot.remediation.approval_buttons import handle_click
from bot.remediation.approval_clicks import parse_voter
from bot.slack.people import People
from bot.tenants.cards.past_incidents import _describe_cause
from bot.tenants.cards.view import TenantViewContext
from bot.tenants.handlers import TenantHandlers
from bot.tenants.leak_detector import LeakDetector
from bot.tenants.tenant_updates import TenantUpdateHandlers
from graph.incident.lifecycle import is_settled_for_tenant
from graph.incident.summarise import _query_job_hosts
from graph.incident.visibility import _list_channel_hosts, _select_tenant_hosts, build_host_scope, list_visible_hosts, map_visible_names
from graph.learning.lesson_drafts import draft_lesson
from graph.ownership import TenantMachines
from graph.report import Report
from kb.names import _fold_char
from tests.properties.customer_files import i27_causes, i27_files, i27_flips, i27_handed, i27_heads, i27_roots
from tests.properties.customer_stories import STORIES as STORIES_WITHOUT_SLACK
from tests.properties.customer_stories import complaint, i27_jobs, i27_scope, i27_who, i27_words
from tests.properties.customer_threads import STORIES as STORIES_IN_SLACK
from tests.properties.customer_threads import i27_bound, i27_people, i27_shared, i27_threads
from tests.properties.mutation import Edit, Mutant, run_mutant, unchanged
from tools.checks.job_log_owners import split_logs_by_owner
from tools.checks.job_log_probe import Logs, Way, below
from tools.inventory.job_lookup import SlurmJobFinder

STORIES = (*STORIES_WITHOUT_SLACK, *STORIES_IN_SLACK)

_ALL_CROSS = Edit(
    TenantViewContext.is_visible_cause,
    "not hypothesis.evidence or not all((self.machines.is_unowned_file_fact(evidence.host, evidence.check, evidence.source) for evidence in hypothesis.evidence))",
    "True",
)
_ANY_FILE = Edit(
    Logs.read, "not is_log(about) or identity(about) != identity(found.about) or found.owner not in (-1, about.st_uid)", "False"
)

CUSTOMER_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a customer widens the look by naming a host",
        "I27",
        (Edit(build_host_scope, "item.data.get(SIDE_KEY) == TENANT_SIDE", "False"),),
        i27_scope,
    ),
    Mutant(
        "a customer's incident sees every host of the operators' channel",
        "I27",
        (
            Edit(
                _list_channel_hosts,
                "_select_tenant_hosts(inventory, group_hosts, origin.tenant) if origin.tenant else group_hosts",
                "group_hosts",
            ),
        ),
        i27_scope,
    ),
    Mutant(
        "a customer's channel sees every host",
        "I27",
        (Edit(_select_tenant_hosts, "inventory.hosts[name].tenant == tenant", "inventory.hosts[name].tenant != ''"),),
        i27_scope,
    ),
    Mutant(
        "the groups of a customer's channel are not read",
        "I27",
        (Edit(list_visible_hosts, "not (origin.tenant and tenant_channel and tenant_channel.groups)", "True"),),
        i27_scope,
    ),
    Mutant(
        "what two customers call theirs means the host of one",
        "I27",
        (Edit(map_visible_names, "alias_counts[host.alias.lower()] == 1", "host.alias"),),
        i27_scope,
    ),
    Mutant(
        "what our side looked at may be named by the customer",
        "I27",
        (
            Edit(
                build_host_scope,
                "HostScope(tuple(dict.fromkeys((*visible_hosts, *kept_hosts))), names, groups)",
                "HostScope(tuple(dict.fromkeys((*visible_hosts, *kept_hosts))), map_visible_names(inventory, (*visible_hosts, *kept_hosts)), groups)",
            ),
        ),
        i27_scope,
    ),
    Mutant(
        "another customer's job is looked for otherwise than none",
        "I27",
        (Edit(SlurmJobFinder._find_job_at, "not is_visible(slurm_job.hosts)", "False"),),
        i27_jobs,
    ),
    Mutant(
        "whose job it is is not asked",
        "I27",
        (Edit(_query_job_hosts, "graph_context.own_job is None or not (context.origin and context.origin.tenant)", "True"),),
        i27_jobs,
    ),
    Mutant(
        "another customer's name passes the check of words",
        "I27",
        (Edit(LeakDetector._find_names, "self._other_tenants", "()"),),
        i27_words,
    ),
    Mutant(
        "what another customer calls their host passes it",
        "I27",
        (Edit(LeakDetector._foreign_machines, "(host.name, host.address, host.alias)", "(host.name, host.address)"),),
        i27_words,
    ),
    Mutant(
        "a host within a range passes it", "I27", (Edit(LeakDetector._find_hosts, "machines.find_spans(folded.text)", "()"),), i27_words
    ),
    Mutant("an invisible letter hides a host from it", "I27", (Edit(_fold_char, "kind not in _INVISIBLE_CATEGORIES", "True"),), i27_words),
    Mutant(
        "whose workspace somebody is of is where the app is",
        "I27",
        (Edit(parse_voter, "user['team_id']", "payload['team']['id']"),),
        i27_who,
    ),
    Mutant(
        "a flag that Slack leaves out makes a full member",
        "I27",
        (Edit(parse_person, "user.get(flag) is False", "not user.get(flag)"),),
        i27_who,
    ),
    Mutant("full members of another workspace are colleagues", "I27", (Edit(require_colleague, "who.team != team", "False"),), i27_who),
    Mutant(
        "an organisation's id in place of a workspace's is ours",
        "I27",
        (Edit(TenantHandlers._notify_operator, "message.user_team in ('', message.team)", "True"),),
        i27_people,
    ),
    Mutant(
        "an id of ours in another workspace tells a customer something",
        "I27",
        (Edit(TenantUpdateHandlers._authorize_operator, "str(user.get('team_id') or '') != team", "False"),),
        i27_people,
    ),
    Mutant(
        "an approval card counts wherever it was copied",
        "I27",
        (
            Edit(
                handle_click,
                "(str((payload.get('channel') or {}).get('id', '')), _get_thread_ts(payload)) != (on.origin.channel, on.origin.thread_ts)",
                "False",
            ),
        ),
        i27_threads,
    ),
    Mutant(
        "a customer's button counts in any thread",
        "I27",
        (
            Edit(
                TenantHandlers._check_click_thread,
                "(origin.customer.channel, origin.customer.thread_ts) != (channel, get_thread_ts(payload))",
                "False",
            ),
        ),
        i27_threads,
    ),
    Mutant(
        "a channel given to somebody else shows what was reported there before",
        "I27",
        (Edit(find_tenant_channel, "row.tenant == origin.tenant", "True"),),
        i27_bound,
    ),
    Mutant(
        "a channel that others read by now is served",
        "I27",
        (Edit(HandlerContext.admit_user, "await self.people.is_shared(place.channel)", "False"),),
        i27_shared,
    ),
    Mutant(
        "a process that remembers a channel does not hear that it turned shared",
        "I27",
        (Edit(People.is_shared, "await self._get_sharing_mark(channel)", "None"),),
        i27_shared,
    ),
    Mutant(
        "a log on a customer's machine is theirs whoever owns it",
        "I27",
        (Edit(TenantMachines.may_see_fact, "check not in FILE_READING_CHECKS or self.owns_file(source)", "True"),),
        i27_files,
    ),
    Mutant(
        "a job on machines of several customers is each one's",
        "I27",
        (Edit(TenantMachines.owns_file, "all((node in self.nodes for node in nodes))", "any((node in self.nodes for node in nodes))"),),
        i27_files,
    ),
    Mutant(
        "a log is of the job in its path whoever owns it",
        "I27",
        (Edit(Logs.job_of, "known[0] == found.about.st_uid", "True"),),
        i27_files,
    ),
    Mutant(
        "what a job names as its output is read whoever owns it",
        "I27",
        (Edit(Logs.note, "about.st_uid == owner", "True"), Edit(Logs.read, "found.owner not in (-1, about.st_uid)", "False")),
        i27_files,
    ),
    Mutant(
        "a line of a log says whose the next one is",
        "I27",
        (Edit(split_logs_by_owner, "line.endswith(mark)", "True"),),
        i27_heads,
    ),
    Mutant(
        "what our own people hand in is told to the customer",
        "I27",
        (Edit(TenantMachines.may_see_fact, "source is not None and source.by == TENANT_SIDE", "True"),),
        i27_handed,
    ),
    Mutant(
        "a cause that nothing of theirs shows is told",
        "I27",
        (Edit(Report.tenant_root_causes, "self.crossing is None", "True"), _ALL_CROSS),
        i27_causes,
    ),
    Mutant(
        "a cause that was withheld is told of in a later incident", "I27", (Edit(_describe_cause, "not cause.inside", "True"),), i27_causes
    ),
    Mutant(
        "a lesson from another's log serves the customer",
        "I27",
        (Edit(draft_lesson, "_is_operator_only(incident, causes, next(iter(owner_tenants), ''), tenant_of_node)", "False"),),
        i27_causes,
    ),
    Mutant(
        "whoever was told nothing counts as answered",
        "I27",
        (Edit(is_settled_for_tenant, "not report.hides_all_causes_from_tenant", "True"),),
        i27_causes,
    ),
    Mutant(
        "a log is opened through whatever folder bears its name by then",
        "I27",
        (Edit(below, "os.open(name, FOLDER, dir_fd=there)", "os.open(name, os.O_PATH, dir_fd=there)"), _ANY_FILE),
        i27_flips,
    ),
    Mutant("a log is another one by the time it is read", "I27", (_ANY_FILE,), i27_flips),
    Mutant(
        "a folder is read that anybody may have put there",
        "I27",
        (Edit(Way.step, "self.strict and not fixed", "False"),),
        i27_roots,
    ),
)


def kill(mutant: Mutant) -> str:
    """Return the story's complaint about the mutant, or "" if it survives."""
    story = mutant.story
    assert story
    return run_mutant(mutant, lambda: complaint(story))


def control() -> str:
    """Return the stories' complaint about the product without a bug."""
    return run_mutant(unchanged(CUSTOMER_MUTANTS), lambda: "".join(map(complaint, STORIES)))
