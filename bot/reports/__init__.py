"""The incident report as Markdown or PDF, one for operators and one for tenants, and the charts in it."""
