"""`rackmedic doctor`: what is examined beyond the settings (hosts, node kits, schedulers, channels, policy, trackers, links)."""
