"""The only room that talks to Slack: its client, what it knows of people, the app's manifest, and what listeners work with.
May import actions, desk, cards, policy and settings; of `bot`, only run and terminal import it."""
