"""Questions of `init`."""

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import typer

from bot.cli.command_runtime import print_text
from bot.refusal import Refusal
from tools.inventory.host_ranges import BadRange, expand_host_range

Answers = Mapping[str, str]  # by question id; empty if optional and unanswered
SOURCE_PREFIXES = ("slurm:", "kubernetes:", "ansible:")
HOST_PATTERN = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"


@dataclass(frozen=True, slots=True)
class Question:
    """`refuses` returns a problem of a non-empty answer; `{folder}` in a default is the output folder."""

    id: str
    asks: str
    teaches: str
    default: str = ""
    needed: bool = False
    secret: bool = False
    refuses: Callable[[str], str] = lambda _: ""


def find_answer_problem(question: Question, answer: str) -> str:
    """Return a problem, or an empty string."""
    if not answer:
        return "an answer is needed" if question.needed else ""
    if "\n" in answer or "\0" in answer:
        return "must be one line"
    return question.refuses(answer)


def is_source(answer: str) -> bool:
    return answer.startswith(SOURCE_PREFIXES)


def _validate_hosts(answer: str) -> str:
    if is_source(answer):
        return "" if answer != "ansible:" else "name the inventory, like ansible:/etc/ansible/hosts"
    try:
        expand_host_range(answer)
    except BadRange as error:
        return str(error)
    return ""


def _build_pattern_validator(pattern: str, says: str) -> Callable[[str], str]:
    return lambda answer: "" if re.fullmatch(pattern, answer) else says


def _validate_yes_or_no(answer: str) -> str:
    return "" if answer.lower() in ("yes", "y", "no", "n") else "say yes or no"


def _build_token_validator(prefix: str) -> Callable[[str], str]:
    return _build_pattern_validator(rf"{prefix}\S+", f"must begin with {prefix}; copy it from the app's page at api.slack.com/apps")


_validate_path = _build_pattern_validator(r"/[A-Za-z0-9._/-]*", "must be an absolute path of letters, digits, '.', '_', '-' and '/'")
QUESTIONS: tuple[Question, ...] = (
    Question(
        "hosts",
        "GPU nodes",
        "a range like gpu-[001-128], or where their list is: slurm:, slurm:LOGIN_HOST, kubernetes:, ansible:FILE",
        needed=True,
        refuses=_validate_hosts,
    ),
    Question(
        "group",
        "Name of this group",
        "how people will call these nodes",
        "train",
        refuses=_build_pattern_validator(HOST_PATTERN, "must be one word"),
    ),
    Question("sku", "Kind of machine", "the profile that a healthy one is compared with; empty: it is guessed from what nodes answer"),
    Question(
        "user",
        "Account on the nodes",
        "the node kit makes it; it needs no password",
        "rackmedic",
        refuses=_build_pattern_validator(HOST_PATTERN, "must be one word"),
    ),
    Question("key", "Private key", "made if it is not there; only RackMedic reads it", "{folder}/id_ed25519", refuses=_validate_path),
    Question(
        "known_hosts",
        "Known host keys",
        "host keys by address, or a @cert-authority line; a host without one is never talked to",
        "{folder}/known_hosts",
        refuses=_validate_path,
    ),
    Question(
        "jump",
        "Bastion",
        "[user@]host[:port] in front of the nodes; empty for none",
        refuses=_build_pattern_validator(rf"(?:[A-Za-z0-9._-]+@)?{HOST_PATTERN}(?::\d+)?", "must look like [user@]host[:port]"),
    ),
    Question(
        "controller",
        "Scheduler's controller",
        "the host on which scontrol or kubectl runs, with the kit; empty: nothing is drained, returned or cancelled",
        refuses=_build_pattern_validator(HOST_PATTERN, "must be one host name"),
    ),
    Question(
        "scheduler",
        "Scheduler",
        "slurm or kubernetes: whose commands those are",
        "slurm",
        refuses=_build_pattern_validator("slurm|kubernetes", "must be slurm or kubernetes"),
    ),
    Question("job_logs", "Folder of job logs", "as the nodes see it; empty for /var/log/jobs", refuses=_validate_path),
    Question(
        "repairs",
        "Propose repairs (yes or no)",
        "each waits for Approve; needs the node kit on the nodes. no: it only looks",
        "yes",
        refuses=_validate_yes_or_no,
    ),
    Question(
        "channel",
        "Slack channel id",
        "of your on-call people: channel name, About, at the very bottom; empty: write it into the inventory later",
        refuses=_build_pattern_validator(r"[CG][A-Z0-9]{5,}", "must be an id like C0123456789, not a name"),
    ),
    Question(
        "approvers",
        "User group that approves",
        "its id, mentioned when something waits for a decision; empty: the people in RACKMEDIC_APPROVERS",
        refuses=_build_pattern_validator(r"S[A-Z0-9]{5,}", "must be a user-group id like S0123456789"),
    ),
    Question(
        "slack_bot_token",
        "Bot token",
        "begins with xoxb-; empty: set RACKMEDIC_SLACK_BOT_TOKEN later",
        secret=True,
        refuses=_build_token_validator("xoxb-"),
    ),
    Question(
        "slack_app_token",
        "App-level token",
        "begins with xapp-; empty: set RACKMEDIC_SLACK_APP_TOKEN later",
        secret=True,
        refuses=_build_token_validator("xapp-"),
    ),
    Question(
        "redis_url",
        "Redis",
        "redis://:password@host:6379/0; empty starts a private redis-server beside the bot",
        secret=True,
        refuses=_build_pattern_validator(r"(?:rediss?|unix)://\S+", "must begin with redis://, rediss:// or unix://"),
    ),
    Question(
        "data_dir",
        "Folder for evidence",
        "outputs that diagnoses cite, bounded in days and size; empty: ~/.local/share/rackmedic",
        refuses=_validate_path,
    ),
)
QUESTIONS_BY_ID: Mapping[str, Question] = {question.id: question for question in QUESTIONS}


def get_default(question: Question, folder: str) -> str:
    return question.default.replace("{folder}", folder)


def find_answer_problems(given: Answers, skus: tuple[str, ...]) -> list[str]:
    strays = [
        f"{stray}: there is no such question; there are {', '.join(QUESTIONS_BY_ID)}" for stray in given if stray not in QUESTIONS_BY_ID
    ]
    problems = [
        f"{question.id}: {problem}" for question in QUESTIONS if (problem := find_answer_problem(question, given.get(question.id, "")))
    ]
    return strays + problems + find_sku_problems(given.get("sku", ""), skus)


def find_sku_problems(answer: str, skus: tuple[str, ...]) -> list[str]:
    return [f"sku: there is no profile {answer!r}; there are {', '.join(skus)}"] if answer and answer not in skus else []


def render_answers_template(folder: str) -> str:
    rows = [f"# {question.asks}: {question.teaches}\n{question.id}: {get_default(question, folder)}".rstrip() for question in QUESTIONS]
    return "\n\n".join(rows) + "\n"


# Asks until an answer is valid.


def prompt_for_answer(question: Question, default: str, refuses: Callable[[str], str]) -> str:
    """Raises Refusal without a terminal."""
    if not sys.stdin.isatty():
        raise Refusal("there is no terminal to ask: fill in `rackmedic init --questions > answers.yaml` and give it with --answers", 2)
    print_text(f"\n{question.asks}", err=True)
    print_text(f"  {question.teaches}", err=True)
    while True:
        answer: str = typer.prompt(
            "  ", default=default, show_default=bool(default), prompt_suffix="> ", hide_input=question.secret, err=True
        )
        if not (refusal := refuses(answer.strip())):
            return answer.strip()
        print_text(f"  {refusal}", err=True)
