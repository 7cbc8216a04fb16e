"""A neural ranker in the service: it ranks, learns, survives restarts, is replayed, guarded and rolled back; the rest refuses."""

from __future__ import annotations

import asyncio

import numpy as np
import onnxruntime
import pytest
from tests.waiting import until

from duelrank.core.errors import InvalidRecipe, InvalidValue, LimitExceeded
from duelrank.export import ScorerModel, export
from duelrank.service import Service
from duelrank.service.definition import GUARD
from duelrank.service.http import KeyRing, create_app
from duelrank.service.http.schema import Change, GuardSpec, Start
from duelrank.service.views import model_answer
from duelrank.storage import open_storage

RECIPE = "mlp-pdgd(hidden=4)"


def neural(kit, **others):
    return kit.spec(**{"algorithm": RECIPE, "representation": None} | others)


def state_of(service):
    return service._rankers["shop"].version.state


async def traffic(service, kit, numbers):
    for number in numbers:
        answer = await service.rank("shop", kit.request(number))
        await service.feedback("shop", [kit.event(number, [answer.ranking[2].id])])


def test_it_learns_survives_a_restart_and_is_replayed_to_the_bit(tmp_path, kit):
    async def main():
        with open_storage(f"sqlite:///{tmp_path / 'store.db'}") as storage:
            async with kit.running(storage) as service:
                info, _ = await service.create(neural(kit))
                assert info.warnings == (
                    "this ranker is not linear, so it can be exported to onnx only (see docs/export.md)",
                )
                assert info.representation == "query-scaled", "its columns must never change"
                await traffic(service, kit, range(20))
                await kit.learned(service, 20)
                before = state_of(service)
        with open_storage(f"sqlite:///{tmp_path / 'store.db'}") as storage:
            async with kit.running(storage) as service:
                assert state_of(service) == before
                assert before.updates > 5
                await traffic(service, kit, range(20, 30))
                await kit.learned(service, 30)
                assert state_of(service) != before
            assert kit.verified(storage).learned == 30

    asyncio.run(main())


def test_versions_can_be_rolled_back_compared_and_exported(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(neural(kit))
            first = state_of(service).weights
            await traffic(service, kit, range(10))
            await kit.learned(service, 10)
            found = service.compare("shop", "i3")
            assert {each.score for each in found.one.ranking} == {0.0}
            assert len({each.score for each in found.other.ranking}) > 1
            model = service.model("shop")
            assert isinstance(model, ScorerModel)
            rows = kit.table(3).astype(np.float32)
            (scores,) = onnxruntime.InferenceSession(export(model, "onnx")).run(None, {"features": rows})
            np.testing.assert_allclose(scores[:, 0], model.score(rows), rtol=1e-4, atol=1e-5)
            await service.control("shop", "rollback", 1)
            assert np.array_equal(state_of(service).weights, first)
            await traffic(service, kit, range(10, 15))
            await kit.learned(service, 15)
        kit.verified(storage)

    asyncio.run(main())


def test_a_guard_counts_a_ranker_without_a_preference_as_a_tie(storage, kit):
    guard = GuardSpec(share=1.0, false_alarm_every=100.0, promote=(1.0,))

    async def main():
        async with kit.running(storage) as service:
            await service.create(neural(kit, guard=guard))
            answer = await service.rank("shop", kit.request(0))
            assert [each.id for each in answer.ranking] == [f"d{number}" for number in range(5)]
            await service.control("shop", "freeze")
            await service.change("shop", Change(guard=None))
            await service.control("shop", "resume")
            await traffic(service, kit, range(1, 20))
            await kit.learned(service, 19)
            await service.change("shop", Change(guard=guard))
            shown = [[each.id for each in (await service.rank("shop", kit.request(n))).ranking] for n in range(50, 60)]
            assert kit.recent(service, "i50").body.list_kind == GUARD
            assert any(ids != [f"d{number}" for number in range(5)] for ids in shown)
        kit.verified(storage)

    asyncio.run(main())


def test_an_explained_ranking_has_scores(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(neural(kit))
            await traffic(service, kit, range(10))
            await kit.learned(service, 10)
            answer = await service.rank("shop", kit.request(20, explain=True))
            assert len({each.score for each in answer.ranking}) > 1
            assert {each.explain for each in answer.ranking} == {None}

    asyncio.run(main())


def test_what_needs_a_weight_per_feature_refuses(storage, kit):
    async def main():
        async with kit.running(storage) as service:
            await service.create(neural(kit))
            await traffic(service, kit, range(5))
            await kit.learned(service, 5)
            with pytest.raises(InvalidRecipe, match=r"is not linear.*there are no curves"):
                service.curves("shop")
            with pytest.raises(InvalidRecipe, match=r"is not linear.*no direction by feature"):
                service.last_step("shop")
            with pytest.raises(InvalidValue, match=r"'shop' is not linear.* exported as onnx"):
                model_answer(service.model("shop"))
            for change in (
                Change(add_features=("new",)),
                Change(retire_features=("age",)),
                Change(representation="raw"),
            ):
                with pytest.raises(InvalidRecipe, match=r"is not linear.* neither its features"):
                    await service.change("shop", change)
            weights = service.history("shop", "minute").weights
            assert {value for values in weights.values() for value in values} <= {None}
            for start in (Start(weights={"bm25": 1.0}), Start(ranker="shop")):
                with pytest.raises((InvalidRecipe, InvalidValue), match="is not linear"):
                    await service.create(neural(kit, name="other", representation="raw", start=start))
            with pytest.raises(InvalidValue, match="'shop' is not linear, so no other ranker can start from it"):
                await service.create(kit.spec("other", start=Start(ranker="shop")))
            with pytest.raises(InvalidRecipe, match=r"is not linear.* knots"):
                await service.create(neural(kit, name="other", representation="curves"))
            with pytest.raises(LimitExceeded, match="at most 100,000 weights"):
                await service.create(neural(kit, name="other", algorithm="mlp-pdgd(hidden=1000, layers=2)"))

    asyncio.run(main())


def test_over_http_refusals_are_422_and_the_export_is_a_graph():
    from tests.service.http.conftest import TestClient

    with open_storage("sqlite://") as storage:
        app = create_app(Service(storage), KeyRing(storage))
        with TestClient(app, "http://127.0.0.1", client=("127.0.0.1", 5)) as client:
            until(lambda: client.get("/readyz").status_code == 200)
            spec = {"name": "shop", "algorithm": RECIPE, "features": ["bm25", "price"]}
            assert client.post("/v1/rankers", json=spec).status_code == 201
            for path in ("model", "curves", "export?format=solr", "export?format=json"):
                answer = client.get(f"/v1/rankers/shop/{path}")
                assert answer.status_code == 422, path
                assert "not linear" in answer.json()["detail"]
            graph = client.get("/v1/rankers/shop/export?format=onnx")
            assert onnxruntime.InferenceSession(graph.content).get_inputs()[0].shape[1] == 2
