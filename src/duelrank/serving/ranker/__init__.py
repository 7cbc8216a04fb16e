"""One ranker: its definition, its state machine, its versions, and the documents of its requests."""
