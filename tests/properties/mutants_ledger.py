"""Safety bugs, seeded one at a time into a copy of the ledger. Each must be caught by the machine or by the story named beside it.

A mutant is a change of source text, loaded as a package of its own: the product is never patched. `python -m tests.properties.mutants_ledger --table`
kills them all and prints what killed which; the table of SECURITY.md is printed by `tests.properties.mutants_actions`.
"""

import asyncio
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import io
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

from fakeredis import FakeAsyncRedis, FakeServer
from hypothesis import HealthCheck, Phase, Verbosity, settings

from tests.properties.ledger_machine import live
from tests.support.fakes_ledger import REAL, Desk, Product
from tests.tools import test_ledger as stories
from tests.tools import test_ledger_keys as key_stories

ROOT = Path(__file__).parents[2] / "tools"
MODULES = ("acting.run", *(f"ledger.{path.stem}" for path in sorted((ROOT / "ledger").glob("*.py")) if path.stem != "__init__"))
MACHINE = "machine"
ENOUGH = settings(
    max_examples=2,
    stateful_step_count=4,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate,),
    report_multiple_bugs=False,
    print_blob=False,
    verbosity=Verbosity.quiet,
    suppress_health_check=list(HealthCheck),
)


@dataclass(frozen=True)
class Mutant:
    """One bug: what it is, which invariant it breaks, the edits (module, before, after), and who must notice."""

    name: str
    breaks: str
    edits: tuple[tuple[str, str, str], ...]
    killer: str = MACHINE


def lua(before: str, after: str = "") -> tuple[str, str, str]:
    """A change of a script."""
    return ("ledger.scripts", before, after)


def py(before: str, after: str = "", module: str = "ledger.ledger") -> tuple[str, str, str]:
    """A change of Python."""
    return (module, before, after)


REQUESTERS = "counted -= requesters_of(action)"
DUE_ONCE = """            await self._redis.zremrangebyscore(f"{self._prefix}due", "-inf", now)
            return texts_of(await self._redis.zrangebyscore("""
COUNTED = """pipe.hgetall(f"{self._prefix}votes:{approval}")
            await self._redis.hincrby(f"{self._prefix}apr:{approval}", "reads", 1)"""
MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "a claim needs no approved state",
        "I2",
        (
            lua("if state() ~= 'approved' then return 'not_open '..state() end\n"),
            lua(" or redis.call('HEXISTS', apr, 'claimed_at') == 1"),
            py("if seen.state is not State.APPROVED:", "if False:"),
        ),
    ),
    Mutant("who adopts may start it again", "I2", (py("worker, may_start=False", "worker, may_start=True"),)),
    Mutant(
        "a living holder can be adopted",
        "I2",
        (lua("if now <= tonumber(redis.call('HGET', apr, 'beat_until') or '0') then return 'alive' end\n"),),
    ),
    Mutant(
        "finishing is not fenced",
        "I2",
        (
            lua(
                "if state() ~= 'executing' or redis.call('HGET', apr, 'token') ~= token then return 'lost' end\nif not begin()",
                "if not begin()",
            ),
        ),
    ),
    Mutant(
        "an adopted claim reaches the host as a start",
        "I2",
        (("acting.run", "if not claim.may_start:", "if False:"),),
        "test_whoever_adopts_a_silent_holders_action_may_only_find_out",
    ),
    Mutant(
        "a Redis that went back in time goes unnoticed",
        "I2",
        (py("if length and text_of(row)", "if False and text_of(row)", "ledger.journal"),),
        "test_a_redis_that_went_back_in_time_stops_everything_until_a_human_looked",
    ),
    Mutant(
        "a script that was sent twice counts twice",
        "I2",
        (lua("if again then return again end\n"),),
        "test_a_script_whose_answer_was_lost_and_that_is_sent_again_counts_once",
    ),
    Mutant("an action set back by hand runs again", "I2", (lua(" or redis.call('HEXISTS', apr, 'claimed_at') == 1"),)),
    Mutant(
        "the quorum counts votes, not voters",
        "I3",
        (
            lua("if redis.call('HEXISTS', votes, voter) == 1 and becomes ~= 'denied' then return 'already' end\n"),
            py("len(voters) >= seen.terms.quorum", "len(seen.votes) + 1 >= seen.terms.quorum"),
        ),
    ),
    Mutant(
        "strangers may vote",
        "I3",
        (py("if voter not in seen.terms.approvers:", "if False:"), py(" and vote.voter in terms.approvers", "", "ledger.record")),
    ),
    Mutant(
        "who lost the right to approve still counts",
        "I3",
        (py("return counted if authorised is None else counted & authorised", "return counted", "ledger.record"),),
    ),
    Mutant(
        "the requester may approve",
        "I4",
        (
            py('if verdict == "approve" and voter in requesters_of(seen.action):', "if False:"),
            py(REQUESTERS, "pass", "ledger.record"),
        ),
    ),
    Mutant(
        "only a sole requester is refused",
        "I4",
        (py('filter(None, action.requested_by.split(","))', "filter(None, [action.requested_by])", "ledger.record"),),
    ),
    Mutant(
        "no digest is compared",
        "I5",
        (
            py(
                "    if seen.digest != digest:\n        raise record.WrongDigest(record.WrongDigest.__doc__)\n    if verdict",
                "    if verdict",
            ),
        ),
        "test_the_digest_of_an_older_card_approves_nothing",
    ),
    Mutant(
        "requests are not signed",
        "I5",
        (
            py(
                'seal.check(row["mac"], "request", row["action"], row["request"], row["proposed_at"], row["decide_by"])',
                "seal.current",
                "ledger.seal",
            ),
        ),
        "test_a_quorum_lowered_by_hand_is_noticed",
    ),
    Mutant(
        "the sets that decide are not audited",
        "I8",
        (py('{"sets": list(terms.sets)} if terms.sets else {}', "{}"),),
        "test_the_audit_log_says_by_which_sets",
    ),
    Mutant("votes are not signed", "I3 I5", (py('seal.check(mac, "vote", text)', "seal.current", "ledger.seal"),)),
    Mutant(
        "the start clock is not signed",
        "I5 I6",
        (
            py(
                'signed.add(seal.check(row.get("approved", ""), "approved", approval, action.digest, row.get("start_by", "")))',
                "pass",
                "ledger.seal",
            ),
        ),
    ),
    Mutant(
        "what an earlier key signed starts",
        "I5",
        (py("        if seen.old_key:\n            raise record.OldKey(record.OldKey.__doc__)\n"),),
    ),
    Mutant("what an earlier key signed can be approved", "I5", (py('if seen.old_key and verdict == "approve":', "if False:"),)),
    Mutant("votes of an earlier key count", "I5", (py("    signed |= by\n", "", "ledger.seal"),)),
    Mutant(
        "a change of the key keeps what is open",
        "I5",
        (py("for approval in (await self.keys()).waiting:", "for approval in ():"),),
    ),
    Mutant(
        "things go on while the key is being changed",
        "I5",
        (py("if key != self._seal.current and not after_older:", "if False:", "ledger.journal"),),
    ),
    Mutant(
        "what was signed before the first change signs for every key",
        "I5",
        (
            py(
                "return next((name for name in asked if name in self._keys",
                "return next((self.current for name in asked if name in self._keys",
                "ledger.seal",
            ),
        ),
    ),
    Mutant(
        "an earlier key may write on the audit log",
        "I8",
        (py('(age[name] > youngest and row_of(line).get("event") != STOP)', "False", "ledger.audit"),),
        "test_what_an_earlier_key_signs_after_a_later_one_breaks_the_chain",
    ),
    Mutant(
        "a vote for one action counts for another",
        "I5",
        (py("vote.digest == action.digest and vote.approval == action.approval", "True", "ledger.record"),),
        "test_a_vote_for_another_action_is_not_a_vote_for_this_one",
    ),
    Mutant("there is no start clock", "I6", (lua("if now > start_by then return 'late' end\n"),)),
    Mutant("there is no decide clock", "I6", (lua("if now > decide_by then return 'late' end\n"),)),
    Mutant(
        "the clock may go back",
        "I6",
        (
            py("return JournalHead(text_of(head), max(own, mark))", "return JournalHead(text_of(head), own)", "ledger.journal"),
            lua(
                "local function behind() return now < stored('clock') end",
                "local function behind() return false end",
            ),
        ),
    ),
    Mutant(
        "setting the stored clock back gives time back",
        "I6",
        (
            py(
                "mark = max(clock_of(text_of(high)), self._written(text_of(head), texts_of(newest), after_older))",
                "mark = clock_of(text_of(high))",
                "ledger.journal",
            ),
        ),
        "test_a_clock_that_was_set_to_zero_gives_a_slow_replica_no_time_back",
    ),
    Mutant(
        "actions expire before their time",
        "I6",
        (lua("if until_ms and now <= until_ms then return 'early' end\n"),),
        "test_nothing_expires_before_its_time",
    ),
    Mutant("a denial can be voted away", "I7", (lua("if state() ~= 'pending' then return 'not_open '..state() end\n"),)),
    Mutant(
        "a revoked action stays approved",
        "I7",
        (
            lua(
                "redis.call('HSET', apr, 'state', becomes, 'ended_by', by, 'says', says)\nif replaced_by",
                "redis.call('HSET', apr, 'ended_by', by, 'says', says)\nif replaced_by",
            ),
        ),
    ),
    Mutant(
        "a denial undone by hand is forgotten",
        "I7",
        (py('if any(vote.verdict == "deny" for vote in seen.votes):', "if False:"),),
        "test_a_denial_undone_by_hand_does_not_let_it_run",
    ),
    Mutant(
        "the claim is not audited",
        "I8",
        (
            lua(
                "if not begin() then return 'retry' end\nlocal token = next_token()\nfor target",
                "if behind() then return 'retry' end\nlocal token = next_token()\nfor target",
            ),
        ),
    ),
    Mutant(
        "a human's leave for the next wave is not audited",
        "I8",
        (
            py(
                '            line = audit.entry("wave_let_go"',
                '            return ""\n            line = audit.entry("wave_let_go"',
                "ledger.book",
            ),
        ),
        "test_who_lets_the_next_wave_go_and_what_somebody_else_returned_is_audited",
    ),
    Mutant(
        "a held node that somebody returned is forgotten without an entry",
        "I8",
        (
            py(
                '            line = audit.entry("held_node',
                '            return ""\n            line = audit.entry("held_node',
                "ledger.book",
            ),
        ),
        "test_who_lets_the_next_wave_go_and_what_somebody_else_returned_is_audited",
    ),
    Mutant(
        "the audit chain is not checked",
        "I8",
        (
            py(
                'if not name or (age[name] > youngest and row_of(line).get("event") != STOP):',
                "name = name or seal.current\n        if False:",
                "ledger.audit",
            ),
            py("intact = head == stored and count == length", "intact = True", "ledger.audit"),
        ),
    ),
    Mutant(
        "a cut end of the audit log goes unnoticed",
        "I8",
        (py('missing = "", 0, set(posted) - {""}', 'missing = "", 0, set[str]()', "ledger.audit"),),
        "test_a_cut_end_shows_against_the_stored_head_and_against_a_posted_one",
    ),
    Mutant(
        "secrets reach the audit log",
        "I8",
        (py("return redact(text)[:MOST_WORDS]", "return text[:MOST_WORDS]", "ledger.book"),),
        "test_no_secret_and_no_output_reaches_the_audit_log_or_a_record",
    ),
    Mutant("the kill switch is ignored", "I9", (lua("if stopped then return 'stopped '..stopped end\n"),)),
    Mutant(
        "the breaker is not sticky",
        "I9",
        (
            py(
                '        await self._switch("breaker_trips", worker, f"breaker:{seen.terms.group}", why, seen.terms.group)\n',
                "        assert why\n",
            ),
        ),
    ),
    Mutant("the breaker never trips", "I9", (lua("  if others(window, now - window_ms) > window_most then return 'trip' end\n"),)),
    Mutant(
        "versions are not compared", "I10", (py("if (seen.action.policy, seen.action.catalogue) != (policy, catalogue):", "if False:"),)
    ),
    Mutant(
        "whoever asks what is late takes it off the list",
        "I12",
        (py("            return texts_of(await self._redis.zrangebyscore(", DUE_ONCE, "ledger.book"),),
    ),
    Mutant(
        "reads are counted in what is read",
        "I12",
        (py('pipe.hgetall(f"{self._prefix}votes:{approval}")', COUNTED, "ledger.book"),),
    ),
    Mutant(
        "whoever looks at the brakes lets go of what is held",
        "I12",
        (
            py(
                'held = sorted(texts_of(await cast(Any, self._redis.smembers(f"{self._prefix}held"))))',
                'held = sorted(texts_of([await cast(Any, self._redis.spop(f"{self._prefix}held")) or b""]))',
                "ledger.book",
            ),
        ),
    ),
    Mutant("a replayed click counts", "I15", (lua("if redis.call('EXISTS', P..'seen:'..delivery) == 1 then return 'replayed' end\n"),)),
    Mutant("the blast radius is ignored", "I19", (lua("  if others(blast, now - blast_ms) > blast_most then return 'blast' end\n"),)),
    Mutant("any number of hosts at once", "I19", (lua("  if others(busy) > at_once then return 'fleet' end\n"),)),
    Mutant("the target is not locked", "I21", (lua("  if holder then return 'busy '..holder end\n"),)),
    Mutant("unknown releases the target", "I21", (lua("if becomes ~= 'unknown' then release() end", "release()"),)),
    Mutant("a reboot leaves the reset approved", "I21", (py("found |= {name for name", "found &= {name for name"),)),
    Mutant(
        "remedies run on a store that forgets",
        "design §7",
        (py("        if why:\n", "        if False:\n"),),
        "test_on_a_store_that_forgets_nothing_runs",
    ),
)


# -- loading a changed copy ---------------------------------------------------------------------------------------------------


class Sources(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds and loads one package from source text in memory."""

    def __init__(self, package: str, sources: Mapping[str, str]) -> None:
        self._package = package
        self._texts = {f"{package}.{name}": text for name, text in sources.items()}
        self._packages = {package, *(name.rpartition(".")[0] for name in self._texts)}

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        known = fullname in self._texts or fullname in self._packages
        return importlib.util.spec_from_loader(fullname, self, is_package=fullname in self._packages) if known else None

    def get_source(self, fullname: str) -> str:
        return self._texts.get(fullname, "")

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.get_source(fullname), f"<{fullname}>", "exec", dont_inherit=True)

    def is_package(self, fullname: str) -> bool:
        return fullname in self._packages

    def forget(self) -> None:
        for name in [*self._texts, *self._packages]:
            sys.modules.pop(name, None)


def changed(mutant: Mutant) -> dict[str, str]:
    """The sources with the bug in them. Each edit must fit exactly once, or the table is stale."""
    sources = {name: (ROOT / f"{name.replace('.', '/')}.py").read_text() for name in MODULES}
    for module, before, after in mutant.edits:
        found = sources[module].count(before)
        if found != 1:
            raise ValueError(f"{mutant.name}: {before!r} is {found} times in {module}, it must be there once")
        sources[module] = sources[module].replace(before, after)
    return sources


@contextlib.contextmanager
def product_of(mutant: Mutant) -> Iterator[Product]:
    """The mutant as a product of its own name, for as long as it is looked at."""
    package = f"mutant_{MUTANTS.index(mutant)}"
    ours = {
        name: text.replace("from tools.ledger", f"from {package}.ledger").replace("from tools.acting.run ", f"from {package}.acting.run ")
        for name, text in changed(mutant).items()
    }
    finder = Sources(package, ours)
    sys.meta_path.insert(0, finder)
    try:
        yield Product(package)
    finally:
        sys.meta_path.remove(finder)
        finder.forget()


# -- telling it the stories -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """Who noticed the bug (empty: nobody), what it said, and how long that took."""

    mutant: Mutant
    killed_by: str
    says: str
    seconds: float


def tell(product: Product, name: str) -> str:
    """One story on a fresh store; what it complains about, empty when it is content."""
    story = getattr(stories, name, None) or getattr(key_stories, name)
    assert list(inspect.signature(story).parameters) == ["desk"], f"{name} needs more than a desk"

    async def told() -> None:
        async with FakeAsyncRedis(server=FakeServer()) as redis:
            await story(Desk(redis, product))

    try:
        asyncio.run(told())
    except BaseException as why:  # pytest's own failures are no Exceptions
        if isinstance(why, KeyboardInterrupt):
            raise
        return f"{type(why).__name__}: {why}"
    return ""


def lives(product: Product) -> str:
    """The machine; what it complains about, empty when it is content."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            live(product, ENOUGH)
    except Exception as why:  # whatever stops it is a complaint
        return f"{type(why).__name__}: {why}"
    return ""


def still_works(product: Product) -> bool:
    """A mutant must be alive to be killed: the straight path works in it."""

    async def straight() -> bool:
        async with FakeAsyncRedis(server=FakeServer()) as redis:
            desk = Desk(redis, product)
            return str((await desk.ran(await desk.approved())).state) == "done"

    return asyncio.run(straight())


def kill(mutant: Mutant) -> Verdict:
    """Show the mutant to its killer."""
    began = time.perf_counter()
    with product_of(mutant) as product:
        assert still_works(product), f"{mutant.name}: this mutant cannot do anything at all"
        says = lives(product) if mutant.killer == MACHINE else tell(product, mutant.killer)
    return Verdict(mutant, mutant.killer if says else "", says, time.perf_counter() - began)


def control() -> str:
    """The ledger as it is must please every killer."""
    killers = sorted({mutant.killer for mutant in MUTANTS if mutant.killer != MACHINE})
    return lives(REAL) or next(filter(None, (tell(REAL, name) for name in killers)), "")


def row_of(mutant: Mutant) -> str:
    """A mutant as a line of the Markdown table, without what changes from run to run."""
    who = "the machine" if mutant.killer == MACHINE else mutant.killer.removeprefix("test_").replace("_", " ")
    return f"| {mutant.name} | {mutant.breaks} | {who} |"


HEADER = ("| seeded bug | breaks | killed by |", "|---|---|---|")


def main(words: list[str]) -> int:
    """`--table` kills them all and says how many seconds each took; 1 when one survives."""
    if words != ["--table"]:
        return 2
    print(f"{HEADER[0]} seconds |\n{HEADER[1]}---|")
    survived = 0
    for mutant in MUTANTS:
        verdict = kill(mutant)
        survived += not verdict.killed_by
        print(f"{row_of(mutant)} {verdict.seconds:.1f}{'' if verdict.killed_by else ' **survived**'} |")
    print(f"\n{len(MUTANTS) - survived} of {len(MUTANTS)} killed; the ledger itself: {control() or 'no complaint'}")
    return int(survived > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
