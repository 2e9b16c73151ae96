"""Safety bugs seeded into scope and identity: whom an incident speaks of, and who somebody is. The story named beside a mutant must catch it."""

from bot.policy.channels import colleague, customers_row, person
from bot.policy.leaks import Inside
from bot.slack.context import Surface
from bot.slack.customers.door import CustomerDoor
from bot.slack.customers.telling import Telling
from bot.slack.incoming.approval_clicks import press
from bot.slack.incoming.clicker import voter_of
from bot.slack.people import People
from graph.incident.summarise import _asked_of_job
from graph.incident.visible import _in_place, scope_of, visible_hosts, visible_names
from kb.names import _folded
from tests.properties.customer_stories import STORIES as STORIES_WITHOUT_SLACK
from tests.properties.customer_stories import complaint, i27_jobs, i27_scope, i27_who, i27_words
from tests.properties.customer_threads import STORIES as STORIES_IN_SLACK
from tests.properties.customer_threads import i27_bound, i27_people, i27_shared, i27_threads
from tests.properties.mutation import Edit, Mutant, run_mutant, unchanged
from tools.inventory.jobs import SlurmJobs

STORIES = (*STORIES_WITHOUT_SLACK, *STORIES_IN_SLACK)

CUSTOMER_MUTANTS: tuple[Mutant, ...] = (
    Mutant("a customer widens the look by naming a host", "I27", (Edit(scope_of, "item.data.get(SIDE) == CUSTOMER", "False"),), i27_scope),
    Mutant(
        "a customer's incident sees every host of the operators' channel",
        "I27",
        (
            Edit(
                _in_place, "tuple((name for name in own if inventory.hosts[name].tenant == origin.tenant)) if origin.tenant else own", "own"
            ),
        ),
        i27_scope,
    ),
    Mutant(
        "a customer's channel sees every host",
        "I27",
        (Edit(_in_place, "inventory.hosts[name].tenant == tenant", "inventory.hosts[name].tenant != ''"),),
        i27_scope,
    ),
    Mutant(
        "the groups of a customer's channel are not read",
        "I27",
        (Edit(visible_hosts, "not (origin.tenant and came and came.groups)", "True"),),
        i27_scope,
    ),
    Mutant(
        "what two customers call theirs means the host of one",
        "I27",
        (Edit(visible_names, "aliases[host.alias.lower()] == 1", "host.alias"),),
        i27_scope,
    ),
    Mutant(
        "what our side looked at may be named by the customer",
        "I27",
        (
            Edit(
                scope_of,
                "Scope(tuple(dict.fromkeys((*own, *kept))), names, groups)",
                "Scope(tuple(dict.fromkeys((*own, *kept))), visible_names(inventory, (*own, *kept)), groups)",
            ),
        ),
        i27_scope,
    ),
    Mutant(
        "another customer's job is looked for otherwise than none",
        "I27",
        (Edit(SlurmJobs._at, "not mine(found.hosts)", "False"),),
        i27_jobs,
    ),
    Mutant(
        "whose job it is is not asked",
        "I27",
        (Edit(_asked_of_job, "ports.own_job is None or not (case.origin and case.origin.tenant)", "True"),),
        i27_jobs,
    ),
    Mutant(
        "another customer's name passes the check of words",
        "I27",
        (Edit(Inside._names, "self._others", "()"),),
        i27_words,
    ),
    Mutant(
        "what another customer calls their host passes it",
        "I27",
        (Edit(Inside._machines, "(host.name, host.address, host.alias)", "(host.name, host.address)"),),
        i27_words,
    ),
    Mutant("a host within a range passes it", "I27", (Edit(Inside._hosts, "machines.found(said.text)", "()"),), i27_words),
    Mutant("an invisible letter hides a host from it", "I27", (Edit(_folded, "kind not in _UNSEEN", "True"),), i27_words),
    Mutant(
        "whose workspace somebody is of is where the app is", "I27", (Edit(voter_of, "user['team_id']", "payload['team']['id']"),), i27_who
    ),
    Mutant(
        "a flag that Slack leaves out makes a full member", "I27", (Edit(person, "user.get(flag) is False", "not user.get(flag)"),), i27_who
    ),
    Mutant("full members of another workspace are colleagues", "I27", (Edit(colleague, "who.team != team", "False"),), i27_who),
    Mutant(
        "an organisation's id in place of a workspace's is ours",
        "I27",
        (Edit(CustomerDoor._as_they_see, "arrival.user_team in ('', arrival.team)", "True"),),
        i27_people,
    ),
    Mutant(
        "an id of ours in another workspace tells a customer something",
        "I27",
        (Edit(Telling._ours, "str(user.get('team_id') or '') != team", "False"),),
        i27_people,
    ),
    Mutant(
        "an approval card counts wherever it was copied",
        "I27",
        (
            Edit(
                press,
                "(str((payload.get('channel') or {}).get('id', '')), _thread(payload)) != (on.origin.channel, on.origin.thread_ts)",
                "False",
            ),
        ),
        i27_threads,
    ),
    Mutant(
        "a customer's button counts in any thread",
        "I27",
        (Edit(CustomerDoor._theirs, "(origin.customer.channel, origin.customer.thread_ts) != (channel, thread_of(payload))", "False"),),
        i27_threads,
    ),
    Mutant(
        "a channel given to somebody else shows what was reported there before",
        "I27",
        (Edit(customers_row, "row.tenant == origin.tenant", "True"),),
        i27_bound,
    ),
    Mutant(
        "a channel that others read by now is served",
        "I27",
        (Edit(Surface.admit, "await self.people.shared(place.channel)", "False"),),
        i27_shared,
    ),
    Mutant(
        "a process that remembers a channel does not hear that it turned shared",
        "I27",
        (Edit(People.shared, "await self._heard(channel)", "None"),),
        i27_shared,
    ),
)


def kill(mutant: Mutant) -> str:
    """Return what the mutant's story says of the bug, empty where it survives."""
    story = mutant.story
    assert story
    return run_mutant(mutant, lambda: complaint(story))


def control() -> str:
    """Return what the stories say of the product without a bug."""
    return run_mutant(unchanged(CUSTOMER_MUTANTS), lambda: "".join(map(complaint, STORIES)))
