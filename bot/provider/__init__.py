"""The line between a customer's own RackMedic and their provider's: outbox and sender on one side, intake on the other, and their Slack side."""
