"""An algorithm with a belief in the service: only checkpoints have it, and restarts, replays and rollbacks agree."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from tests.service.test_not_linear import state_of, traffic

from duelrank.storage import open_storage


@pytest.mark.parametrize("algorithm", ["thompson-pairs", "thompson-pairs(covariances=0)"])
def test_it_survives_a_restart_and_a_rollback_and_is_replayed_to_the_bit(tmp_path, kit, algorithm):
    async def main():
        with open_storage(f"sqlite:///{tmp_path / 'store.db'}") as storage:
            async with kit.running(storage) as service:
                await service.create(kit.spec(algorithm=algorithm, representation="curves"))
                first = state_of(service).weights
                await traffic(service, kit, range(70))  # the knots move twice, and the belief widens once
                await kit.learned(service, 70)
                before = state_of(service)
                assert "belief" not in before.memory
                assert before.updates > 30
        with open_storage(f"sqlite:///{tmp_path / 'store.db'}") as storage:
            async with kit.running(storage) as service:
                assert state_of(service) == before
                await traffic(service, kit, range(70, 80))
                await kit.learned(service, 80)
                await service.control("shop", "rollback", 1)
                assert np.array_equal(state_of(service).weights, first)
                await traffic(service, kit, range(80, 90))
                await kit.learned(service, 90)
            assert kit.verified(storage).learned == 90

    asyncio.run(main())
