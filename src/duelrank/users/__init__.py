"""Stage 3: who clicks in a simulation."""

from duelrank.users.base import User
from duelrank.users.cascade import Cascade
from duelrank.users.preset import Preset

__all__ = ["Cascade", "Preset", "User"]
