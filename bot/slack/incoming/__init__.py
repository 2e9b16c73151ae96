"""What people do in Slack, carried to the inbox or to the approvals: messages, clicks, forms, commands, the Home tab.
May import all that the Slack side may, but nothing of `outgoing`."""
