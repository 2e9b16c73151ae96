"""What the real trackers refuse, and their relevant behaviour: status, body and source of each rule. The stand-ins
answer from this table, docs/trackers.md shows it, and `tests/bot/trackers/test_rules.py` breaks every rule.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

JIRA = "https://developer.atlassian.com/cloud/jira/platform"
GITHUB = "https://docs.github.com/en/rest"
PAGERDUTY = "https://github.com/PagerDuty/developer-docs/blob/main/docs"
SERVICENOW = "https://www.servicenow.com/docs/r/api-reference/rest-apis/c_TableAPI.html"
STANDARD = "https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md"
COMMUNITY = "https://www.servicenow.com/community"


@dataclass(frozen=True)
class VendorRule:
    """`says`: the rule in words; `body`: the answer's body, None if the rule refuses nothing."""

    says: str
    source: str
    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


def _field(name: str, words: str) -> dict[str, Any]:
    return {"errorMessages": [], "errors": {name: words}}


def _jira(*words: str) -> dict[str, Any]:
    return {"errorMessages": list(words), "errors": {}}


def _invalid(name: str, code: str, **more: str) -> dict[str, Any]:
    return {"message": "Validation Failed", "errors": [{"resource": "Issue", "field": name, "code": code, **more}]}


def _event(words: str) -> dict[str, Any]:
    return {"status": "invalid event", "message": "Event object is invalid", "errors": [words]}


def _table(message: str, detail: str | None) -> dict[str, Any]:
    return {"error": {"message": message, "detail": detail}, "status": "failure"}


RULES: Mapping[str, VendorRule] = {
    "jira.auth": VendorRule(
        "a wrong token is 401 without `errorMessages`",
        "https://github.com/jira-node/node-jira-client/issues/255",
        401,
        {"message": "Client must be authenticated to access this resource.", "status-code": 401},
    ),
    "jira.summary_missing": VendorRule(
        "a summary is needed",
        f"{JIRA}/rest/v3/api-group-issues/#api-rest-api-3-issue-post",
        400,
        _field("summary", "You must specify a summary of the issue."),
    ),
    "jira.summary_long": VendorRule(
        "a summary has at most 255 characters",
        "https://github.com/prometheus-community/jiralert/issues/123",
        400,
        _field("summary", "Summary can't exceed 255 characters."),
    ),
    "jira.summary_lines": VendorRule(
        "a summary is one line",
        "https://github.com/ryanhoskin/pd2jira/pull/19",
        400,
        _field("summary", "The summary is invalid because it contains newline characters."),
    ),
    "jira.description": VendorRule(
        "a description is a document, not a text",
        "https://github.com/lesstif/php-jira-rest-client/issues/280",
        400,
        _field("description", "Operation value must be an Atlassian Document (see the Atlassian Document Format)"),
    ),
    "jira.text_empty": VendorRule("no text within a document is empty", f"{JIRA}/apis/document/nodes/text/", 400, _jira("INVALID_INPUT")),
    "jira.description_long": VendorRule(
        "a description has at most 32,767 characters",
        "https://github.com/mozilla/jira-bugzilla-integration/issues/180",
        400,
        _field("description", "The entered text is too long. It exceeds the allowed limit of 32,767 characters."),
    ),
    "jira.project": VendorRule(
        "a project must be there and ours",
        f"{JIRA}/rest/v3/api-group-issues/#api-rest-api-3-issue-post",
        400,
        _field("project", "valid project is required"),
    ),
    "jira.type": VendorRule(
        "a type must be one of the project's",
        f"{JIRA}/rest/v3/api-group-issues/#api-rest-api-3-issue-post",
        400,
        _field("issuetype", "Specify a valid issue type"),
    ),
    "jira.field": VendorRule(
        "a field must be on the project's screen",
        f"{JIRA}/rest/v3/api-group-issues/#api-rest-api-3-issue-post",
        400,
        _field("customfield_1", "Field 'customfield_1' cannot be set. It is not on the appropriate screen, or unknown."),
    ),
    "jira.label": VendorRule(
        "a label has no space",
        "https://github.com/projectdiscovery/nuclei/issues/1689",
        400,
        _field("labels", "The label 'two words' contains spaces which is invalid."),
    ),
    "jira.issue": VendorRule(
        "what is not there, or not for us, is 404",
        f"{JIRA}/rest/v3/api-group-issues/#api-rest-api-3-issue-issueidorkey-get",
        404,
        _jira("Issue does not exist or you do not have permission to see it."),
    ),
    "jira.search_old": VendorRule(
        "the search of before is gone",
        "https://developer.atlassian.com/changelog/#CHANGE-2046",
        410,
        _jira("The requested API has been removed."),
    ),
    "jira.search_unbounded": VendorRule(
        "a search must be restricted",
        "https://github.com/raycast/extensions/issues/21425",
        400,
        _jira("Unbounded JQL queries are not allowed here. Please add a search restriction to your query."),
    ),
    "jira.limit": VendorRule(
        "over the limit is 429 with `Retry-After` in seconds", f"{JIRA}/rate-limiting/", 429, {}, {"Retry-After": "30"}
    ),
    "jira.comments": VendorRule(
        "comments that are not for us are refused",
        f"{JIRA}/rest/v3/api-group-issue-comments/#api-rest-api-3-issue-issueidorkey-comment-get",
        403,
        _jira("You do not have permission to browse comments."),
    ),
    "jira.search_fields": VendorRule(
        "a search gives only the fields that are asked for", f"{JIRA}/rest/v3/api-group-issue-search/#api-rest-api-3-search-jql-post", 200
    ),
    "github.agent": VendorRule(
        "without a `User-Agent` there is no answer",
        f"{GITHUB}/using-the-rest-api/getting-started-with-the-rest-api#user-agent",
        403,
        {"message": "Request forbidden by administrative rules. Please make sure your request has a User-Agent header."},
    ),
    "github.auth": VendorRule(
        "a wrong token is 401", f"{GITHUB}/authentication/authenticating-to-the-rest-api", 401, {"message": "Bad credentials"}
    ),
    "github.hidden": VendorRule(
        "what a token may not see is 404",
        f"{GITHUB}/using-the-rest-api/troubleshooting-the-rest-api#404-not-found-for-an-existing-resource",
        404,
        {"message": "Not Found"},
    ),
    "github.rights": VendorRule(
        "a token without the permission is 403",
        f"{GITHUB}/using-the-rest-api/troubleshooting-the-rest-api#resource-not-accessible",
        403,
        {"message": "Resource not accessible by personal access token"},
    ),
    "github.title": VendorRule("a title is needed", f"{GITHUB}/issues/issues#create-an-issue", 422, _invalid("title", "missing_field")),
    "github.title_long": VendorRule(
        "a title has at most 256 characters",
        "https://github.com/DavyJonesLocker/party_foul/pull/122",
        422,
        _invalid("title", "custom", message="title is too long (maximum is 256 characters)"),
    ),
    "github.body_long": VendorRule(
        "a body has at most 65,536 characters",
        "https://github.com/JasonEtco/create-an-issue/issues/123",
        422,
        _invalid("body", "custom", message="body is too long (maximum is 65536 characters)"),
    ),
    "github.issues_off": VendorRule(
        "where issues are off they are 410",
        "https://github.com/ossf/allstar/issues/64",
        410,
        {"message": "Issues are disabled for this repo"},
    ),
    "github.limit": VendorRule(
        "over the limit is 429 or 403, `x-ratelimit-remaining: 0`, until `x-ratelimit-reset`",
        f"{GITHUB}/using-the-rest-api/rate-limits-for-the-rest-api#exceeding-the-rate-limit",
        429,
        {"message": "API rate limit exceeded for user ID 1."},
        {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "{reset}"},
    ),
    "github.secondary": VendorRule(
        "over a secondary limit is 403 or 429, and without a `Retry-After` a minute is to be waited",
        f"{GITHUB}/using-the-rest-api/best-practices-for-using-the-rest-api#handle-rate-limit-errors-appropriately",
        403,
        {"message": "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."},
    ),
    "github.labels": VendorRule("labels are dropped in silence where we may not set them", f"{GITHUB}/issues/issues#create-an-issue", 201),
    "github.unchanged": VendorRule(
        "what did not change is 304 for its `ETag`",
        f"{GITHUB}/using-the-rest-api/best-practices-for-using-the-rest-api#use-conditional-requests-if-appropriate",
        304,
    ),
    "github.comments": VendorRule("comments come oldest first, page by page", f"{GITHUB}/issues/comments#list-issue-comments", 200),
    "pagerduty.key": VendorRule(
        "a routing key has 32 characters",
        "https://github.com/envato/pagerduty/issues/70",
        400,
        _event("Length of 'routing_key' is incorrect (should be 32 characters)"),
    ),
    "pagerduty.key_unknown": VendorRule(
        "a routing key must be one of an integration",
        "https://github.com/robusta-dev/robusta/issues/571",
        400,
        {"status": "invalid key", "message": "Invalid routing key", "errors": []},
    ),
    "pagerduty.action": VendorRule(
        "an event triggers, acknowledges or resolves",
        f"{PAGERDUTY}/events-API-v2/02-Trigger-Events.md",
        400,
        _event("'event_action' is missing or invalid"),
    ),
    "pagerduty.summary": VendorRule(
        "an alert needs a summary", f"{PAGERDUTY}/events-API-v2/02-Trigger-Events.md", 400, _event("'payload.summary' is missing or blank")
    ),
    "pagerduty.source": VendorRule(
        "an alert needs a source", f"{PAGERDUTY}/events-API-v2/02-Trigger-Events.md", 400, _event("'payload.source' is missing or blank")
    ),
    "pagerduty.severity": VendorRule(
        "a severity is critical, error, warning or info",
        f"{PAGERDUTY}/events-API-v2/02-Trigger-Events.md",
        400,
        _event("'payload.severity' is invalid (must be one of the following: 'critical', 'warning', 'error' or 'info')"),
    ),
    "pagerduty.summary_long": VendorRule(
        "a summary has at most 1024 characters",
        f"{PAGERDUTY}/events-API-v2/02-Trigger-Events.md",
        400,
        _event("'payload.summary' is too long (must be at most 1024 characters)"),
    ),
    "pagerduty.dedup_long": VendorRule(
        "a `dedup_key` has at most 255 characters",
        f"{PAGERDUTY}/events-API-v2/02-Trigger-Events.md",
        400,
        _event("'dedup_key' is too long (must be at most 255 characters)"),
    ),
    "pagerduty.limit": VendorRule(
        "too many events are 429, without a time", f"{PAGERDUTY}/events-API-v2/01-Overview.md", 429, {"status": "throttle exceeded"}
    ),
    "pagerduty.accepted": VendorRule(
        "an event is taken with 202, before anything is made of it", f"{PAGERDUTY}/events-API-v2/01-Overview.md", 202
    ),
    "pagerduty.same_key": VendorRule(
        "the same `dedup_key` is one alert while that is open, and a new one after it was resolved",
        f"{PAGERDUTY}/events-API-v2/02-Trigger-Events.md",
        202,
    ),
    "pagerduty.token": VendorRule(
        "a wrong token of the REST API is 401",
        f"{PAGERDUTY}/REST-API/14-Errors.md",
        401,
        {"error": {"message": "Authentication failed", "code": 2006}},
    ),
    "pagerduty.denied": VendorRule(
        "what a token may not read is 403", f"{PAGERDUTY}/REST-API/14-Errors.md", 403, {"error": {"message": "Access Denied", "code": 2010}}
    ),
    "pagerduty.rest_limit": VendorRule(
        "over the REST API's limit is 429, `ratelimit-remaining: 0`, and `ratelimit-reset` in seconds",
        f"{PAGERDUTY}/REST-API/04-Rate-Limits.md",
        429,
        {"error": {"message": "Rate Limit Exceeded", "code": 2020}},
        {"ratelimit-remaining": "0", "ratelimit-reset": "30"},
    ),
    "servicenow.auth": VendorRule(
        "a wrong password is 401", SERVICENOW, 401, _table("User Not Authenticated", "Required to provide Auth information")
    ),
    "servicenow.rights": VendorRule(
        "a table that we may not read is 403",
        f"{COMMUNITY}/developer-forum/rest-api-call-returns-forbidden-403-for-table-quot-gs/m-p/1356330",
        403,
        _table("User Not Authorized", "User is unauthorized to access table: sys_journal_field"),
    ),
    "servicenow.table": VendorRule("a table must be there", SERVICENOW, 400, _table("Invalid table nowhere", None)),
    "servicenow.record": VendorRule(
        "a `sys_id` that is not there, or not for us, is 404",
        SERVICENOW,
        404,
        _table("No Record found", "Record doesn't exist or ACL restricts the record retrieval"),
    ),
    "servicenow.policy": VendorRule(
        "what a data policy or a business rule forbids is 403",
        "http://www-01.ibm.com/support/knowledgecenter/SSPLFC_7.3.0/com.ibm.taddm.doc_7.3/AdminGuide/r_cmdb_snow_appendix_c.html",
        403,
        _table("Operation Failed", "Data Policy Exception: the following fields are mandatory: Caller"),
    ),
    "servicenow.limit": VendorRule(
        "over the limit is 429 with `Retry-After`",
        "https://www.servicenow.com/docs/r/api-reference/rest-api-explorer/inbound-REST-API-rate-limiting.html",
        429,
        _table("Rate limit exceeded", "Rejected by API rate limiting"),
        {"Retry-After": "30"},
    ),
    "servicenow.unknown_field": VendorRule("fields that a table has not are passed over in silence", SERVICENOW, 201),
    "servicenow.hidden_rows": VendorRule(
        "rows that we may not read are left out, and counted in `X-Total-Count`",
        f"{COMMUNITY}/itsm-forum/rest-api-incident-sla-is-not-accessible/m-p/812907",
        200,
    ),
    "webhook.signature": VendorRule("what is not signed with the key is 401", STANDARD, 401, {"error": "not signed"}),
    "webhook.late": VendorRule("what was signed too long ago is 401", STANDARD, 401, {"error": "not signed"}),
    "webhook.same_id": VendorRule("the same `webhook-id` is one message", STANDARD, 200),
    "webhook.limit": VendorRule("a receiver may say 429 with `Retry-After`", STANDARD, 429, {}, {"Retry-After": "30"}),
}


def refused(*broken: str, reset: float = 0.0) -> web.Response:
    """Return the answer to a request that breaks these rules: the first one's, with the others' errors added. `reset`:
    end of a rate limit, Unix seconds.
    """
    first = RULES[broken[0]]
    body = deepcopy(first.body)
    for rule in broken[1:]:
        _also(body, RULES[rule].body)
    headers = {name: value.format(reset=int(reset)) for name, value in first.headers.items()}
    return web.json_response(body, status=first.status, headers=headers)


def _also(body: Any, more: Any) -> None:
    for name in ("errors", "errorMessages"):
        if isinstance(body.get(name), list):
            body[name] += more.get(name, [])
        elif isinstance(body.get(name), dict):
            body[name] |= more.get(name, {})
