"""Compiled array functions: they take and return arrays and scalars, hold no policy, and import numpy and each other only.

Each has a slow, obvious twin in `tests/reference` that a property test compares it with.
"""
