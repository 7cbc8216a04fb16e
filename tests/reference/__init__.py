"""Slow, obvious versions of the kernels: the same modules, names, arguments and random draws."""
