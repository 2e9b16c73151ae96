"""How the app is installed in Slack."""

from dataclasses import dataclass

from aiohttp import ClientError
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.slack.manifest import SCOPES


class NotInstalled(Exception):
    """Slack answers, and refuses the token. The text is Slack's own word for why."""


class SlackUnreachable(Exception):
    """Slack cannot be asked. The text says where it was looked for, and why not."""


@dataclass(frozen=True, slots=True)
class Installation:
    """`lacking` is empty where Slack does not list the granted scopes."""

    user: str
    team: str
    lacking: tuple[str, ...] = ()


async def check_installation(token: str, base_url: str) -> Installation:
    """Compare the token's scopes with the manifest's. Raises NotInstalled, SlackUnreachable."""
    try:
        answer = await AsyncWebClient(token, base_url=base_url).auth_test()
    except SlackApiError as error:
        raise NotInstalled(str(error.response["error"])) from error
    except (ClientError, OSError, TimeoutError) as error:
        raise SlackUnreachable(f"{base_url}: {error or type(error).__name__}") from error
    granted = set(filter(None, str(answer.headers.get("x-oauth-scopes", "")).split(",")))
    return Installation(str(answer["user"]), str(answer["team"]), tuple(sorted(set(SCOPES) - granted)) if granted else ())
