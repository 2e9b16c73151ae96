"""A local Slack workspace: Web API, Socket Mode, and a page for people. The real bot runs against it unchanged, because
every call is answered or refused as Slack does.
"""

from deploy.sandbox.slack.server import SlackSandbox

__all__ = ["SlackSandbox"]
