"""Rewards for training editors: a mix of dimensions, with gates (docs/howto/rewards.md)."""

from .config import RewardConfig as RewardConfig
from .reward import Reward as Reward
from .schema import RewardReply as RewardReply
