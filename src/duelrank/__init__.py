"""duelrank learns a search ranker from clicks, while it serves.

``__init__.pyi`` lists the public names. Each is imported on first use, so that `import duelrank` itself is fast.
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
