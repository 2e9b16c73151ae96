"""Every card in every state and at its extremes, within Slack's limits and ours."""
