"""The closed table of thread intents: id, example, meaning and inbox item.

`graph.dialogue.read` recognises them, `graph.incident.answers` answers them.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal, NamedTuple

from graph.state import InboxItemKind


class Intent(StrEnum):
    """The ids that rules or a model may choose. Stored with messages, so never rename one."""

    HOST_STATE = "host_state"
    GROUP_STATE = "group_state"
    SHOW_OUTPUT = "show_output"
    SHOW_PICTURE = "show_picture"
    EXPLAIN = "explain"
    WHY_NOT = "why_not"
    COMPARE = "compare"
    CHANGED_SINCE = "changed_since"
    HAPPENED_BEFORE = "happened_before"
    SAFE_TO = "safe_to"
    WHAT_NOW = "what_now"
    ON_APPROVE = "on_approve"
    WHO_MAY_APPROVE = "who_may_approve"
    WHO_IS_ON_IT = "who_is_on_it"
    ACTION_DETAIL = "action_detail"
    FACT_DETAIL = "fact_detail"
    JOBS_ON_HOST = "jobs_on_host"
    HOST_IDENTITY = "host_identity"
    PAGE_OR_WAIT = "page_or_wait"
    TAKE = "take"
    ASSIGN = "assign"
    WAITS = "waits"
    HAND_OFF = "hand_off"
    SUMMARY = "summary"
    REPORT = "report"
    RECHECK = "recheck"
    NARROW = "narrow"
    WIDEN = "widen"
    RUN_CHECK = "run_check"
    RUN_GUIDE = "run_guide"
    WISH_REMEDY = "wish_remedy"
    UNDO = "undo"
    CORRECT = "correct"
    FIXED = "fixed"
    STILL_BROKEN = "still_broken"
    CLOSE = "close"
    REOPEN = "reopen"
    STOP = "stop"
    PAUSE = "pause"
    STATUS = "status"
    HELP = "help"
    THANKS = "thanks"
    SMALL_TALK = "small_talk"
    META = "meta"
    TYPED_APPROVAL = "typed_approval"
    SNOOZE = "snooze"
    HOST_CHANGED = "host_changed"
    NEW_FACTS = "new_facts"
    NOT_UNDERSTOOD = "not_understood"


# What a question asks of hosts or a cause; empty where a yes or no would answer a question not fully understood.
Predicate = Literal["", "usable", "changeable", "happened"]


class IntentRow(NamedTuple):
    """`item`: the inbox item that a message becomes; `ask` is answered from known facts, without any check."""

    form: str  # Example on the help card; empty if not shown.
    means: str
    item: InboxItemKind = "ask"


# fmt: off
INTENTS: Final[Mapping[Intent, IntentRow]] = {
    Intent.HOST_STATE:      IntentRow("what about gpu-002?", "what I know of a host, and when it was read"),
    Intent.GROUP_STATE:     IntentRow("how are the others?", "the same of several hosts, a group, or all"),
    Intent.SHOW_OUTPUT:     IntentRow("show dmesg of gpu-002", "what a check printed, as text, file or picture"),
    Intent.SHOW_PICTURE:    IntentRow("show the timeline", "the timeline, the bandwidth, or the tree of what was ruled out, as a picture and as text"),
    Intent.EXPLAIN:         IntentRow("why?", "the evidence behind the cause, or behind one that you name", "why"),
    Intent.WHY_NOT:         IntentRow("why not the network?", "what speaks against a cause"),
    Intent.COMPARE:         IntentRow("compare gpu-001 and gpu-002", "what differs between hosts"),
    Intent.CHANGED_SINCE:   IntentRow("what changed since 02:00?", "what happened or was found since then"),
    Intent.HAPPENED_BEFORE: IntentRow("has this happened before?", "earlier incidents like this one"),
    Intent.SAFE_TO:         IntentRow("is it safe to restart the job?", "what speaks for and against it"),
    Intent.WHAT_NOW:        IntentRow("what should I do now?", "the next step"),
    Intent.ON_APPROVE:      IntentRow("what happens if I approve?", "what would run, where, and how it is proved"),
    Intent.WHO_MAY_APPROVE: IntentRow("who may approve?", "the approvers, and how many it takes"),
    Intent.WHO_IS_ON_IT:    IntentRow("who is on it?", "who took this incident, who has to act, and who is on call"),
    Intent.ACTION_DETAIL:   IntentRow("how long will the reboot take?", "of a fix: its command, files, duration, reach, risk and undo"),
    Intent.FACT_DETAIL:     IntentRow("how far off is the clock?", "a number or name that was read, with host, check and time"),
    Intent.JOBS_ON_HOST:    IntentRow("which jobs run on gpu-002?", "the jobs on a host, and whose they are"),
    Intent.HOST_IDENTITY:   IntentRow("serial number of gpu-002?", "what a machine is: model, serials, slot, rack, switch, driver, scheduler state, owner"),
    Intent.PAGE_OR_WAIT:    IntentRow("page someone or wait?", "how urgent it is, and whether it needs hands on site or a new part"),
    Intent.TAKE:            IntentRow("I take it", "note you as the one who is on it"),
    Intent.ASSIGN:          IntentRow("assign it to @name", "note somebody else"),
    Intent.WAITS:           IntentRow("waiting for the vendor", "note that whoever has the ticket waits for others"),
    Intent.HAND_OFF:        IntentRow("hand off", "make this thread a ticket for a human", "hand_off"),
    Intent.SUMMARY:         IntentRow("summary for my manager", "the incident in a few lines; also “for a ticket”"),
    Intent.REPORT:          IntentRow("post-incident report", "the incident on one page, with an appendix, as a file"),
    Intent.RECHECK:         IntentRow("recheck [HOSTS]", "look again, or on these hosts or this group only", "recheck"),
    Intent.NARROW:          IntentRow("hosts RANGE", "the hosts that are concerned, as gpu-[017-020] or a group’s name", "reply"),
    Intent.WIDEN:           IntentRow("check gpu-[005-008] too", "look at more hosts", "reply"),
    Intent.RUN_CHECK:       IntentRow("run nccl1 on gpu-002", "put a test that needs idle GPUs up for decision"),
    Intent.RUN_GUIDE:       IntentRow("run guide gpu_lost on gpu-002", "look in the order of a troubleshooting guide, and tell its steps", "recheck"),
    Intent.WISH_REMEDY:     IntentRow("drain gpu-002", "put a fix up for decision, or say why not"),
    Intent.UNDO:            IntentRow("undo that", "put the way back up for decision"),
    Intent.CORRECT:         IntentRow("no, it was the cable", "note what it really was"),
    Intent.FIXED:           IntentRow("it works again", "look once more, and close if it is so", "recheck"),
    Intent.STILL_BROKEN:    IntentRow("still broken", "look once more at what was found", "recheck"),
    Intent.CLOSE:           IntentRow("close, it was the cable", "close the incident with its cause"),
    Intent.REOPEN:          IntentRow("reopen", "open it again"),
    Intent.STOP:            IntentRow("stop", "stop looking; nothing is lost", "stop"),
    Intent.PAUSE:           IntentRow("be quiet for 2 hours", "say nothing in this thread until then, unless I am mentioned"),
    Intent.STATUS:          IntentRow("status", "what I know and what I am doing", "status"),
    Intent.HELP:            IntentRow("help", "this list"),
    Intent.THANKS:          IntentRow("", "somebody is polite"),
    Intent.SMALL_TALK:      IntentRow("", "somebody greets or jokes"),
    Intent.META:            IntentRow("what can you see?", "who I am and what I may look at"),
    Intent.TYPED_APPROVAL:  IntentRow("", "somebody writes “approve”: only the button approves"),
    Intent.SNOOZE:          IntentRow("not urgent, remind me tomorrow", "send no reminder of what waits here until then"),
    Intent.HOST_CHANGED:    IntentRow("gpu-002 was rebooted", "look again at the host that people changed", "recheck"),
    Intent.NEW_FACTS:       IntentRow("anything else", "new facts, or the answer to my question; logs can be attached", "reply"),
    Intent.NOT_UNDERSTOOD:  IntentRow("", "none of these"),
}
# fmt: on
assert set(INTENTS) == set(Intent)

# Texts of the help card that differ from `means`, which the model reads.
HELP_TEXTS: Final[Mapping[Intent, str]] = {
    Intent.WHY_NOT: "the evidence against a cause",
    Intent.ON_APPROVE: "what would run, where, and how the result is verified",
    Intent.TAKE: "note that you work on it",
    Intent.RECHECK: "check again: all hosts, or only these hosts or this group",
    Intent.NARROW: "name the affected hosts, as gpu-[017-020] or a group’s name",
    Intent.RUN_CHECK: "propose a test that needs idle GPUs for approval",
    Intent.WISH_REMEDY: "propose a fix for approval, or say why not",
    Intent.UNDO: "propose the undo for approval",
    Intent.FIXED: "check once more, and close if it is fixed",
    Intent.STILL_BROKEN: "check what was found once more",
    Intent.WAITS: "note that the ticket waits for others",
    Intent.ASSIGN: "note that another person works on it",
    Intent.SAFE_TO: "what is for and against it",
    Intent.WIDEN: "check more hosts",
    Intent.RUN_GUIDE: "check in the order of a troubleshooting guide, and show its steps",
    Intent.TYPED_APPROVAL: "a typed “approve” does not count: only the button approves",
    Intent.STOP: "stop checking; findings are kept",
    Intent.SNOOZE: "no reminder until then; messages are still answered",
    Intent.HOST_CHANGED: "check a host again after somebody changed it",
}


def describe_intent(intent: Intent) -> str:
    """Return the intent's text on the help card."""
    return HELP_TEXTS.get(intent, INTENTS[intent].means)
