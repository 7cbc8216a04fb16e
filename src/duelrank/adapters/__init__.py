"""Adapters to what people already have: scikit-learn, PyTerrier, logs of clicks, scores of sub-queries."""
