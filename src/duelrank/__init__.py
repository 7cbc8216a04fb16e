"""duelrank learns a search ranker from clicks, while it serves.

The public names stand in ``__init__.pyi``. Each is imported when it is first used: `import duelrank` itself costs nothing.
"""

import lazy_loader

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
