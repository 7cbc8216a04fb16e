"""Slow, obvious twins of the kernels: the same names, arguments and random draws."""
