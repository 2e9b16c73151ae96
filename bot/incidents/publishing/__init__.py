"""Post and edit Slack messages of incidents: progress, reports, files, reactions and thread links."""
