"""Where queries come from: LETOR text, a binary cache, a catalogue of published sets, and a synthetic set."""
