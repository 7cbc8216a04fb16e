"""The event log as the service uses it: bodies of events, group commit, the newest events, impressions by id."""
