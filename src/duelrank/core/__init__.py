"""Foundations of all packages: values, errors, validation, registry, grammar, randomness, memory, files and compiling."""
