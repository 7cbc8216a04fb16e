"""The one process that learns: election, learner, retention."""
