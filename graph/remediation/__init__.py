"""From a cause to ordered remediation steps, and the state machine that advances and ends them."""
