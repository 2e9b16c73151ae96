"""Extract hosts, job, times, symptoms and facts from messages and attachments."""
