"""A Slack workspace on one's own machine: Web API, Socket Mode, and a page on which a person plays the story.

The bot that talks to it is the real one: it believes in Slack because everything it can ask is answered, and refused, as Slack does.
"""

from deploy.sandbox.slack.server import SlackSandbox

__all__ = ["SlackSandbox"]
