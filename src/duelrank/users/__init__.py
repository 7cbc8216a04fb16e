"""Stage 4: simulated users, who click on lists."""

from duelrank.users.base import User
from duelrank.users.cascade import Cascade
from duelrank.users.click_model import ClickModel
from duelrank.users.dbn import DBN
from duelrank.users.dcm import DCM
from duelrank.users.intent_drift import IntentDrift
from duelrank.users.mixture import Mixture
from duelrank.users.opposed import Opposed
from duelrank.users.pbm import PBM
from duelrank.users.preset import Preset
from duelrank.users.ubm import UBM

__all__ = [
    "DBN",
    "DCM",
    "PBM",
    "UBM",
    "Cascade",
    "ClickModel",
    "IntentDrift",
    "Mixture",
    "Opposed",
    "Preset",
    "User",
]
