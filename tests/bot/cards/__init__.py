"""What people read: every card in every state, at its extremes, within Slack's limits and ours."""
