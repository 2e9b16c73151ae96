"""`rackmedic init`: asks what a site is made of, writes its files, tries them, and says what is left to people."""
