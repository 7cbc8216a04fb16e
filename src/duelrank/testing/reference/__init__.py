"""Slow, obvious twins of the kernels: same names, same arguments, same draws from the same stream."""
