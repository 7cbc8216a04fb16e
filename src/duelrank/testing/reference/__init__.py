"""Slow, obvious twins of the kernels: the same names, arguments and random draws."""

from duelrank.core.errors import MissingExtra

try:
    import scipy  # noqa: F401
except ImportError:
    raise MissingExtra("the slow twins of the kernels need SciPy: pip install 'duelrank[scipy]'") from None
