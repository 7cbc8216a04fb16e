"""Adapters to other libraries and data: scikit-learn, PyTerrier, click logs (UBI, backfill), and hybrid search."""
