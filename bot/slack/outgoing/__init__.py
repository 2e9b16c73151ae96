"""What people are shown in Slack, posted once and edited from then on: progress, reports, tickets, the cards of actions.
May import all that the Slack side may, but nothing of `incoming`."""
