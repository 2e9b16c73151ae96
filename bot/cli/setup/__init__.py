"""`rackmedic init`: ask for the site's data, write inventory and settings, test them, list remaining steps."""
