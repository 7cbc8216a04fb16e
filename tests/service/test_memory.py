"""What a ranker remembers of queries: who may teach it, that it survives everything, and that it can be made to forget."""

from __future__ import annotations

import asyncio
import sqlite3
from itertools import pairwise

import numpy as np
import pytest
from tests.service.test_backfill import logged, taught
from tests.service.test_channel import front, inboxes, learner  # noqa: F401

from duelrank.core import memory as core_memory
from duelrank.core.errors import InvalidValue, LimitExceeded
from duelrank.kernels import remembered as kernels
from duelrank.service import Settings, log
from duelrank.service.definition import Definition
from duelrank.service.http.schema import Change, Document, ExperimentSpec, GuardSpec, RankRequest, ShowRequest
from duelrank.service.intake import remembered_query
from duelrank.service.rankers import MemoryStore, StoredMemory
from duelrank.service.replay import replay

RECIPE = "remember >> wmgd-dsp"


def same(number: int, query: str | None = "red shoes", **others) -> RankRequest:
    """A request for six documents that no features distinguish."""
    documents = [Document(f"d{row}", [0.5] * 4) for row in range(6)]
    return RankRequest(documents, f"i{number}", query=query, **others)


async def visit(service, kit, numbers, query="red shoes", wanted="d3", name="shop", **event):
    """Ask a query so often, and click the wanted document if it is shown."""
    for number in numbers:
        shown = (await service.rank(name, same(number, query))).ids
        given = {"user_id": f"u{number}"} | event
        counts = await service.feedback(name, [kit.event(number, [wanted] if wanted in shown else [], **given)])
        assert counts.accepted == 1


async def settled(kit, service, count, name="shop"):
    """Wait until so many lists are done with, and return what is remembered then."""
    await kit.learned(service, count, name)
    return service.memory(name)


def records(service, name="shop"):
    """What is remembered, to the bit."""
    ranker = service._rankers[name]
    memory = ranker.remembered
    return ranker.created.remember.table.records(memory).tobytes(), memory["rate"].tobytes()


def lived(storage, kit, life, *, settings=None, **spec):
    """Let a coroutine use a service with a ranker that remembers; return what it returns."""

    async def main():
        async with kit.running(storage, **settings or {}) as service:
            await service.create(kit.spec(**{"algorithm": RECIPE} | spec))
            return await life(service)

    return asyncio.run(main())


class TestQueries:
    @pytest.mark.parametrize(
        ("text", "remembered"),
        [
            ("red shoes", "red shoes"),
            ("  Red\t SHOES\n", "red shoes"),
            ("Große Straße", "grosse strasse"),
            ("赤い　靴", "赤い 靴"),
            ("", ""),
            (" \t ", ""),
            ("x" * 512, "x" * 512),
            ("x" * 513, ""),
        ],
    )
    def test_texts_that_differ_in_case_and_spaces_are_one_query(self, text, remembered):
        assert remembered_query(same(1, text), Settings()) == remembered

    def test_a_key_is_taken_as_it_is(self):
        assert remembered_query(same(1, None, query_key=" Ab9 "), Settings()) == " Ab9 "
        assert remembered_query(same(1, None), Settings()) == ""

    @pytest.mark.parametrize(
        ("given", "reason"),
        [
            ({"query": "a", "query_key": "b"}, "not both"),
            ({"query": None, "query_key": ""}, "from 1 to 512"),
            ({"query": None, "query_key": "x" * 513}, "got 513"),
            ({"query": "\ud800"}, "valid Unicode"),
            ({"query": None, "query_key": "\ud800"}, "valid Unicode"),
        ],
    )
    def test_what_is_no_query_is_refused(self, given, reason):
        with pytest.raises(InvalidValue, match=reason):
            remembered_query(same(1, **given), Settings())

    def test_both_are_refused_by_a_ranker_that_remembers_nothing_too(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec())
                with pytest.raises(InvalidValue, match="not both"):
                    await service.rank("shop", same(1, query_key="b"))
                await service.rank("shop", same(2, "a secret"))
                body = storage.log.find("shop", log.IMPRESSION, ["i2"])["i2"].body
                assert b"secret" not in body
                with pytest.raises(InvalidValue, match="does not remember queries; create a ranker with"):
                    service.memory("shop")
                with pytest.raises(InvalidValue, match="does not remember queries"):
                    await service.forget("shop", "a secret")

        asyncio.run(main())

    def test_without_a_query_nothing_is_remembered(self, storage, kit):
        async def life(service):
            await visit(service, kit, range(5), None)
            await visit(service, kit, range(5, 10), " ")
            return await settled(kit, service, 10)

        found = lived(storage, kit, life)
        assert (found.queries, found.documents, found.bytes, found.remembered) == (0, 0, 0, [])

    def test_a_limit_outside_the_range_is_refused(self, storage, kit):
        async def life(service):
            for limit in (0, 101, 2.5):
                with pytest.raises(InvalidValue, match="limit"):
                    service.memory("shop", "", limit)

        lived(storage, kit, life)


class TestBounds:
    @pytest.mark.parametrize(
        ("recipe", "what"),
        [
            ("remember(queries=21, documents=5)", "at most 20 queries to remember here, got 21"),
            ("remember(queries=20, documents=6)", "at most 5 documents of a query to remember here, got 6"),
        ],
    )
    def test_a_service_has_limits(self, storage, kit, recipe, what):
        async def main():
            async with kit.running(storage, remember_queries=20, remember_documents=5) as service:
                with pytest.raises(LimitExceeded, match=what):
                    await service.create(kit.spec(algorithm=f"{recipe} >> wmgd-dsp"))
                await service.create(kit.spec(algorithm="remember(queries=20, documents=5) >> wmgd-dsp"))

        asyncio.run(main())

    def test_the_least_recent_leave(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(algorithm="remember(queries=3, documents=2) >> wmgd-dsp"))
                for number in range(10):
                    await visit(service, kit, [number], f"query {number}")
                return await settled(kit, service, 10), records(service)

        found, memory = asyncio.run(main())
        assert {each.query for each in found.remembered} == {"query 7", "query 8", "query 9"}
        assert (found.queries, found.documents) == (3, 6)

        async def again():
            async with kit.running(storage) as service:
                return records(service)

        assert asyncio.run(again()) == memory
        kit.verified(storage)


class TestRemembering:
    def test_what_users_chose_rises_at_once_for_this_query_alone(self, storage, kit):
        async def life(service):
            await visit(service, kit, range(30))
            found = await settled(kit, service, 30)
            shown = await service.rank("shop", same(100, "RED  shoes", explain=True))
            other = await service.rank("shop", same(101, "blue shoes", explain=True))
            keyed = await service.rank("shop", same(102, None, query_key="red shoes", explain=True))
            return found, shown, other, keyed

        found, shown, other, keyed = lived(storage, kit, life)
        (query,) = found.remembered
        best = query.documents[0]
        assert (query.query, query.lists, best.id, found.queries) == ("red shoes", 30, "d3", 1)
        assert 0 < best.clicks <= best.views <= 30
        assert best.boost > 0 > query.documents[-1].boost
        assert query.effect == max(best.boost, -query.documents[-1].boost)
        assert 0 < found.clicks_per_view < 1
        assert shown.ids[0] == "d3"
        assert shown.ranking[0].memory == best.boost
        assert shown.ranking[0].score == pytest.approx(sum(shown.ranking[0].explain.values()) + best.boost)
        assert [each.memory for each in other.ranking] == [None] * len(other.ranking)
        assert keyed.ids[0] == "d3", "a key that is the text is the same query"
        kit.verified(storage)

    def test_those_with_the_largest_effect_come_first(self, storage, kit):
        async def life(service):
            await visit(service, kit, range(20), "often")
            await visit(service, kit, range(20, 22), "seldom")
            await settled(kit, service, 22)
            return service.memory("shop"), service.memory("shop", limit=1), service.memory("shop", "seldom")

        several, one, asked = lived(storage, kit, life)
        effects = [each.effect for each in several.remembered]
        assert effects == sorted(effects, reverse=True)
        assert one.remembered == several.remembered[:1]
        assert [each.query for each in asked.remembered] == ["seldom"]
        assert (several.queries, one.queries, asked.queries) == (2, 2, 2)

    def test_an_unknown_query_has_an_empty_answer(self, storage, kit):
        async def life(service):
            await visit(service, kit, range(3))
            await settled(kit, service, 3)
            return service.memory("shop", "never asked")

        assert lived(storage, kit, life).remembered == []

    def test_a_user_teaches_a_query_once_a_day(self, storage, kit):
        clock = kit.clock()

        async def main():
            async with kit.running(storage, clock=clock) as service:
                await service.create(kit.spec(algorithm=RECIPE))
                await visit(service, kit, range(5), user_id="one")
                await visit(service, kit, range(5, 10), "blue shoes", user_id="one")
                await visit(service, kit, range(10, 13))  # of three others
                counts = [await settled(kit, service, 13)]
                clock.advance(2 * 86400.0)
                await visit(service, kit, range(13, 16), user_id="one")
                counts.append(await settled(kit, service, 16))
                await visit(service, kit, range(16, 20), user_id=None)
                counts.append(await settled(kit, service, 20))
                assert service.ranker("shop").learned == 20, "the weights learn from all of them"
            return [{each.query: each.lists for each in found.remembered} for found in counts]

        first, next_day, nameless = asyncio.run(main())
        assert first == {"red shoes": 4, "blue shoes": 1}
        assert next_day["red shoes"] == 5
        assert nameless["red shoes"] == 9
        kit.verified(storage)

    def test_votes_survive_a_restart(self, storage, kit):
        async def main(numbers, count):
            async with kit.running(storage, clock=kit.clock()) as service:
                await service.create(kit.spec(algorithm=RECIPE))
                await visit(service, kit, numbers, user_id="one")
                return (await settled(kit, service, count)).remembered[0].lists

        assert [asyncio.run(main(range(3), 3)), asyncio.run(main(range(3, 6), 6))] == [1, 1]
        kit.verified(storage)

    def test_a_list_that_could_not_be_learned_from_is_no_vote(self, storage, kit, monkeypatch):
        learn = Definition.rebuild

        def broken(self, state, id, *others):
            if id == "i0":
                raise ArithmeticError("no")
            return learn(self, state, id, *others)

        async def life(service):
            monkeypatch.setattr(Definition, "rebuild", broken)
            await visit(service, kit, range(2), user_id="one")
            await kit.until(lambda: service.ranker("shop").learned == 1)
            return service.memory("shop").remembered[0].lists

        assert lived(storage, kit, life) == 1
        monkeypatch.undo()
        result = replay(storage, "shop")
        assert (result.difference, result.failed) == (None, 1)

    def test_lists_of_the_guard_and_of_frozen_rankers_do_not_count(self, storage, kit):
        async def life(service):
            for number in range(60):
                await visit(service, kit, [number])
            await settled(kit, service, 60)
            counted, now = service.memory("shop").remembered[0].lists, service.ranker("shop")
            await service.control("shop", "freeze")
            await visit(service, kit, range(60, 70))
            await settled(kit, service, 70)
            return counted, now, service.memory("shop").remembered[0].lists

        guard = GuardSpec(share=0.5, promote=(1.0,))
        counted, now, frozen = lived(storage, kit, life, guard=guard, imitate=0)
        assert now.skipped > 10
        assert counted == now.learned == frozen
        kit.verified(storage)

    def test_a_shadow_remembers_and_greedy_lists_do_not_count(self, storage, kit):
        async def life(service):
            await visit(service, kit, range(10))
            found = await settled(kit, service, 10)
            shown = await service.rank("shop", same(100, explain=True))
            await service.change("shop", Change(mode="learn", exploration=0.0))
            await visit(service, kit, range(10, 15))
            return found, shown, await settled(kit, service, 15)

        found, shown, greedy = lived(storage, kit, life, mode="shadow")
        assert shown.ids[:4] == ["d0", "d1", "d2", "d3"], "the order of the request"
        assert shown.ranking[3].memory > 0
        assert found.remembered[0].lists == greedy.remembered[0].lists == 10
        kit.verified(storage)

    def test_a_ranker_of_the_same_name_begins_without_it(self, storage, kit):
        async def life(service):
            await visit(service, kit, range(10))
            await settled(kit, service, 10)
            await service.delete("shop")
            await service.create(kit.spec(algorithm=RECIPE))
            assert service.memory("shop").queries == 0
            await visit(service, kit, range(3), "blue shoes")
            return [each.query for each in (await settled(kit, service, 3)).remembered]

        assert lived(storage, kit, life) == ["blue shoes"]
        kit.verified(storage)

    def test_logs_of_another_system_fill_it(self, storage, kit):
        async def life(service):
            lists = [replace_query(logged(kit, number), "Red Shoes") for number in range(10)]
            lists += [replace_query(logged(kit, number), None) for number in range(10, 15)]
            lists += [
                replace_query(logged(kit, 15), None, query_key="k1"),
                replace_query(logged(kit, 16), "a", query_key="b"),
            ]
            counts = await service.backfill("shop", lists)
            assert (counts.accepted, len(counts.invalid)) == (16, 1)
            await taught(kit, service, 16)
            found = service.memory("shop")
            await visit(service, kit, [100])
            await settled(kit, service, 1)
            return found, service.memory("shop", "red shoes").remembered[0].lists

        found, after = lived(storage, kit, life)
        lists = {each.query: each.lists for each in found.remembered}
        assert (lists, after) == ({"red shoes": 10, "k1": 1}, 11), "the first live list keeps what the log has taught"
        assert sum(each.clicks for each in found.remembered[-1].documents) > 0
        kit.verified(storage)


def replace_query(one, query, **others):
    from msgspec.structs import replace

    return replace(one, query=query, **others)


class TestPinned:
    def test_those_of_the_most_views_with_enough_clicks(self, storage, kit):
        async def life(service):
            await visit(service, kit, range(10), "often")
            await visit(service, kit, range(10, 16), "seldom")
            await visit(service, kit, range(16, 18), "nothing", wanted="")
            await settled(kit, service, 18)
            asked = ({"evidence": 1.0}, {"evidence": 7.0}, {"evidence": 99.0}, {"evidence": 0.0, "queries": 1})
            return [service.pinned("shop", **each) for each in asked]

        several, enough, none, one = lived(storage, kit, life)
        assert [(each.query, [document.id for document in each.documents]) for each in several] == [
            ("often", ["d3"]),
            ("seldom", ["d3"]),
        ]
        assert [each.query for each in enough] == ["often"]
        assert none == []
        assert one == several[:1]
        assert several[0].documents[0].boost > 0

    def test_a_memory_without_an_effect_pins_nothing(self, storage, kit):
        async def main():
            async with kit.running(storage) as service:
                await service.create(kit.spec(algorithm="remember(strength=0) >> wmgd-dsp"))
                await visit(service, kit, range(10))
                found = await settled(kit, service, 10)
                shown = await service.rank("shop", same(100, explain=True))
                return found.remembered[0], shown, service.pinned("shop", evidence=0.0)

        query, shown, pinned = asyncio.run(main())
        assert (query.lists, query.effect, pinned) == (10, 0.0, [])
        assert {each.memory for each in shown.ranking} == {None}


class TestForgetting:
    def test_a_query_a_document_or_everything(self, storage, kit):
        async def life(service):
            await visit(service, kit, range(10), "red shoes")
            await visit(service, kit, range(10, 20), "blue shoes")
            await settled(kit, service, 20)
            found = []
            for words in ({"query": "red shoes"}, {"document": "d3"}, {"document": "unknown"}, {}):
                await service.forget("shop", **words)
                found.append(service.memory("shop"))
            with pytest.raises(InvalidValue, match="not both"):
                await service.forget("shop", "red shoes", "d3")
            return found

        query, document, unknown, everything = lived(storage, kit, life)
        assert [each.query for each in query.remembered] == ["blue shoes"]
        assert "d3" in [each.id for each in query.remembered[0].documents]
        assert "d3" not in [each.id for each in document.remembered[0].documents]
        assert unknown == document
        assert (everything.queries, everything.remembered) == (0, [])
        kit.verified(storage)

    def test_it_is_not_remembered_again_after_a_restart(self, storage, kit):
        async def first(service):
            await visit(service, kit, range(10), "red shoes")
            await visit(service, kit, range(10, 20), "blue shoes")
            await settled(kit, service, 20)
            await service.forget("shop", "red shoes")
            await visit(service, kit, range(20, 23), "blue shoes")
            await settled(kit, service, 23)
            return records(service)

        async def second(service):
            await kit.learned(service, 23)
            return records(service), [each.query for each in service.memory("shop").remembered]

        before = lived(storage, kit, first)
        assert lived(storage, kit, second) == (before, ["blue shoes"])
        kit.verified(storage)

    def test_rollbacks_and_other_features_forget_nothing(self, storage, kit):
        async def life(service):
            await visit(service, kit, range(10))
            await settled(kit, service, 10)
            before = records(service)
            await service.control("shop", "rollback", 1)
            rolled = records(service)
            await service.change("shop", Change(add_features=("stock",)))
            changed = records(service)
            await service.change("shop", Change(representation="curves"))
            return before, rolled, changed, records(service)

        before, *others = lived(storage, kit, life)
        assert others == [before] * 3
        kit.verified(storage)


class TestStore:
    def test_a_restart_and_a_replay_remember_the_same(self, storage, kit):
        async def first(service):
            for number in range(40):
                await visit(service, kit, [number], f"query {number % 7}", f"d{number % 5}")
            await settled(kit, service, 40)
            return records(service)

        async def second(service):
            again = records(service)
            for number in range(40, 60):
                await visit(service, kit, [number], f"query {number % 9}")
            await settled(kit, service, 60)
            return again, records(service)

        before = lived(storage, kit, first)
        again, after = lived(storage, kit, second)
        assert before == again != after
        assert kit.verified(storage).snapshots_compared > 0

    def test_a_replay_finds_a_memory_that_was_changed(self, storage, kit):
        async def life(service):
            await visit(service, kit, range(10))
            await settled(kit, service, 10)

        lived(storage, kit, life)
        kit.verified(storage)
        snapshots = storage.snapshots
        newest = snapshots.load("shop", log.MEMORY_CHANGES)
        stored = log.unpack(newest.body, StoredMemory)
        other = np.frombuffer(stored.records, "<i8").copy()
        other[2] += 1  # one list more than there was
        stored.records = other.tobytes()
        snapshots.save("shop", log.MEMORY_CHANGES, newest.number, newest.time, log.pack(stored))
        assert "the memory of queries" in replay(storage, "shop").difference

    def test_versions_do_not_have_it_and_checkpoints_stay_small(self, storage, kit):
        async def life(service):
            await visit(service, kit, range(5))
            await settled(kit, service, 5)
            machine = service._rankers["shop"].machine
            sizes = [len(machine.checkpoint())]
            for number in range(5, 105):
                await visit(service, kit, [number], f"{number:050}", user_id=None)
            await settled(kit, service, 105)
            return sizes[0], len(machine.checkpoint()), service.memory("shop").bytes

        before, after, bytes = lived(storage, kit, life, representation="raw")
        assert bytes > 10_000
        assert after - before < 1_000, "but for counters, which have more digits"
        for kind in (log.VERSION, log.CHECKPOINT):
            for info in storage.snapshots.list("shop", kind):
                assert b"0000000042" not in storage.snapshots.load("shop", kind, info.number).body

    def test_a_full_memory_takes_the_place_of_its_changes(self, storage, kit, monkeypatch):
        monkeypatch.setattr("duelrank.service.leader.MEMORY_BYTES", 1000)

        async def life(service):
            for start in range(0, 60, 10):
                await visit(service, kit, range(start, start + 10))
                await settled(kit, service, start + 10)
                term = service._background._term
                await kit.until(lambda: not service._tail.changed.is_set())
                term._tidied = -1e9
                await kit.rounds(service)
            return records(service)

        before = lived(storage, kit, life)
        full = [info.number for info in storage.snapshots.list("shop", log.MEMORY)]
        changes = [info.number for info in storage.snapshots.list("shop", log.MEMORY_CHANGES)]
        oldest = storage.snapshots.list("shop", log.CHECKPOINT)[0].number
        assert full[0] <= oldest
        assert len([number for number in changes if number <= full[0]]) <= 1
        assert len(full) + len(changes) < 12

        async def again(service):
            return records(service)

        assert lived(storage, kit, again) == before
        kit.verified(storage)

    def test_many_small_changes_do_not_pile_up(self, storage, kit, monkeypatch):
        """They may be far smaller than the memory, but all of them are listed and read."""
        monkeypatch.setattr("duelrank.service.rankers.CHANGE", 1 << 17)

        async def life(service):
            for number in range(8):
                await visit(service, kit, [number])
                await settled(kit, service, number + 1)
                service._background._term._tidied = -1e9
                await kit.rounds(service)

        lived(storage, kit, life)
        assert storage.snapshots.list("shop", log.MEMORY)
        assert len(storage.snapshots.list("shop", log.MEMORY_CHANGES)) < 8
        kit.verified(storage)

    def test_what_is_forgotten_leaves_the_disk(self, storage, kit):
        def on_disk(kind):
            found = [storage.snapshots.load("shop", kind, info.number) for info in storage.snapshots.list("shop", kind)]
            return any(b"a secret" in each.body for each in found)

        async def life(service):
            await visit(service, kit, range(5), "a secret")
            await settled(kit, service, 5)
            term = service._background._term
            term._tidied = -1e9
            await kit.rounds(service)
            assert on_disk(log.MEMORY_CHANGES)
            await service.forget("shop", "a secret")
            for number in range(5, 10):  # each time a checkpoint, of which the oldest go
                await visit(service, kit, [number])
                await settled(kit, service, number + 1)
                term._tidied = -1e9
                await kit.rounds(service)

        lived(storage, kit, life)
        assert not on_disk(log.MEMORY_CHANGES)
        assert not on_disk(log.MEMORY)
        kit.verified(storage)

    def test_who_lags_behind_what_was_removed_reads_all_again(self, storage, kit):
        remember = Definition(kit.spec(algorithm=RECIPE), 0.0).remember
        store = MemoryStore(storage, remember, "shop")
        memories = [remember.start()]
        for number in range(6):
            memories.append(counted(remember, memories[-1], f"query {number % 4}"))
        for number, (before, after) in enumerate(pairwise(memories), 1):
            store.save_changes(after, before, number, 0.0)
        behind = store.load(up_to=2)
        assert same_records(remember, behind[0], memories[2])
        store.save_all(memories[4], 4, 0.0)
        store.prune(5)
        for begin in (({}, 0), behind, store.load(up_to=4), store.load(up_to=5)):
            memory, number = store.follow(*begin)
            assert number == 6
            assert same_records(remember, memory, memories[6])

    def test_a_large_memory_is_saved_in_pieces(self, storage, kit, monkeypatch):
        monkeypatch.setattr("duelrank.service.rankers.PIECE", 400)
        remember = Definition(kit.spec(algorithm=RECIPE), 0.0).remember
        store, memory = MemoryStore(storage, remember, "shop"), remember.start()
        for number in range(20):
            memory = counted(remember, memory, f"query {number}")
        store.save_all(memory, 1, 0.0)
        stored = [storage.snapshots.list("shop", f"memory-{place}") for place in range(20)]
        sizes = [each[0].size for each in stored if each]
        assert len(sizes) > 3
        assert max(sizes) < 400 + remember.table.n_bytes(memory) / 20 * 2
        assert same_records(remember, store.load()[0], memory)
        few = remember.without(remember.without(memory, "query 3"), "query 4")
        store.save_all(few, 2, 0.0, reset=True)
        assert same_records(remember, store.load(1)[0], memory), "an older checkpoint is complete"
        for begin in (({}, 0), (memory, 1)):
            assert same_records(remember, store.follow(*begin)[0], few)
        nothing = remember.without(few)
        store.save_all(nothing, 3, 0.0, reset=True)
        store.prune(3)
        left = [storage.snapshots.load("shop", f"memory-{place}") for place in range(len(sizes))]
        assert [each.body for each in left] == [b""] * len(sizes), "no text of a query stays"
        assert same_records(remember, store.load()[0], nothing)
        assert store.load()[0]["lists"] == memory["lists"]

    def test_what_is_removed_while_it_is_read_is_read_again(self, storage, kit, monkeypatch):
        remember = Definition(kit.spec(algorithm=RECIPE), 0.0).remember
        store = MemoryStore(storage, remember, "shop")
        first = counted(remember, remember.start(), "one")
        second = counted(remember, first, "two")
        store.save_changes(first, remember.start(), 1, 0.0)
        store.save_changes(second, first, 2, 0.0)
        load = type(storage.snapshots).load

        def late(snapshots, name, kind, number=None):
            if kind == log.MEMORY_CHANGES and number == 1:
                monkeypatch.undo()
                store.save_all(second, 2, 0.0)
                store.prune(2)
            return load(snapshots, name, kind, number)

        monkeypatch.setattr(type(storage.snapshots), "load", late)
        memory, number = store.follow({}, 0)
        assert number == 2
        assert same_records(remember, memory, second)

    @pytest.mark.parametrize("kind", ["memory-changes", "memory", "memory-0"])
    def test_a_damaged_memory_leads_to_an_older_checkpoint(self, sqlite_url, storage, kit, monkeypatch, kind):
        monkeypatch.setattr("duelrank.service.leader.MEMORY_BYTES", 100)

        async def life(service):
            start = service.ranker("shop").impressions
            await visit(service, kit, range(start, start + 5))
            await settled(kit, service, start + 5)
            service._background._term._tidied = -1e9
            await kit.rounds(service)
            return records(service)

        for _ in range(3):
            before = lived(storage, kit, life)
        with sqlite3.connect(sqlite_url.removeprefix("sqlite:///")) as database:
            database.execute(
                "UPDATE duelrank_snapshots SET checksum = checksum + 1 WHERE kind = ? AND number = "
                "(SELECT max(number) FROM duelrank_snapshots WHERE kind = ?)",
                (kind, kind),
            )
        database.close()

        async def again(service):
            return records(service)

        assert lived(storage, kit, again) == before


def counted(remember, memory, query):
    """The memory after a list of a query, with a click on the second document."""
    from duelrank import Feedback, Query
    from duelrank.core.types import Impression

    asked = Query(query, np.zeros((3, 2)), documents=["a", "b", "c"])
    return remember.count(memory, Impression(asked, np.arange(3)), Feedback(np.array([False, True, False])))


def same_records(remember, one, other):
    table = remember.table
    return np.array_equal(table.records(one), table.records(other)) and np.array_equal(one["rate"], other["rate"])


class TestProcesses:
    def test_the_process_that_serves_follows_the_learner(self, sqlite_url, storage, kit, inboxes):  # noqa: F811
        async def main():
            async with front(storage, kit, inboxes) as service:
                await service.create(kit.spec(algorithm=RECIPE))
                await visit(service, kit, range(30))
                followed = lambda: {each.query: each.lists for each in service.memory("shop").remembered}  # noqa: E731
                await kit.until(lambda: followed() == {"red shoes": 30}, followed)
                assert (await service.rank("shop", same(100))).ids[0] == "d3"
                await service.forget("shop", "red shoes")
                assert service.memory("shop").queries == 0, "when the answer comes, this process has forgotten it, too"
                answer = await service.rank("shop", same(101, explain=True))
                assert {each.memory for each in answer.ranking} == {None}
                await visit(service, kit, range(30, 33))
                await kit.until(lambda: followed() == {"red shoes": 3}, followed)
                return records(service)

        with learner(sqlite_url, kit, inboxes):
            followed = asyncio.run(main())
        kit.verified(storage)

        async def alone():
            async with kit.running(storage) as service:
                return records(service)

        assert asyncio.run(alone()) == followed

    def test_who_only_reads_sees_it(self, storage, kit):
        async def life(service):
            await visit(service, kit, range(5))
            return await settled(kit, service, 5)

        before = lived(storage, kit, life)

        async def read():
            async with kit.running(storage, read_only=True) as service:
                await kit.until(lambda: service.ranker("shop").learned == 5)
                return service.memory("shop")

        assert asyncio.run(read()) == before


@pytest.mark.parametrize("learning", [True, False])
def test_the_kernels_of_a_memory_are_compiled_before_a_request_needs_them(kit, monkeypatch, learning):
    called = set()
    for name in ("recall", "text_keys", "boosts", "drawn", "count", "newer_records"):
        for module in (kernels, core_memory):
            if hasattr(module, name):
                kernel = getattr(kernels, name)
                monkeypatch.setattr(module, name, lambda *given, n=name, k=kernel: called.add(n) or k(*given))
    Definition(kit.spec(algorithm=RECIPE), 0.0).warm_up(learning)
    assert called == {"recall", "text_keys", "boosts", "drawn", *(("count", "newer_records") if learning else ())}


def with_a_new_one(number: int) -> RankRequest:
    documents = [Document("new", [0.5] * 4), *same(number).documents]
    return RankRequest(documents, f"i{number}", query="red shoes", explain=True)


async def tried(service, numbers) -> bool:
    """Whether a list raises the new document, of which nobody has said anything."""
    lists = [(await service.rank("shop", with_a_new_one(number))).ranking for number in numbers]
    return any(each.id == "new" and each.memory for shown in lists for each in shown)


def test_frozen_rankers_and_experiments_raise_no_document_for_a_try(storage, kit):
    async def life(service):
        await visit(service, kit, range(30))
        await settled(kit, service, 30)
        await service.create_experiment(ExperimentSpec("spring", ("engine",), rankers=("shop",), length=6))
        documents = with_a_new_one(0).documents
        asked = [ShowRequest({"engine": []}, f"s{number}", None, documents, "red shoes") for number in range(9)]
        compared = [(await service.show("spring", each)).documents[0] for each in asked]
        await service.control("shop", "freeze")
        frozen = await tried(service, range(100, 110))
        await service.control("shop", "resume")
        assert (frozen, set(compared), await tried(service, range(110, 120))) == (False, {"d3"}, True)

    lived(storage, kit, life, algorithm="remember(curious=1.0) >> wmgd-dsp")


@pytest.mark.parametrize(
    "spec",
    [
        {"exploration": 0.0},
        {"mode": "shadow"},
        {"guard": GuardSpec(share=1.0, promote=(1.0,)), "imitate": 0},
        {"guard": GuardSpec(share=1e-9, promote=(1.0,)), "imitate": 1000},
    ],
    ids=["greedy", "shadow", "guard", "baseline"],
)
def test_only_lists_that_explore_raise_a_document_for_a_try(storage, kit, spec):
    """The order of the others is compared, or is the best one; a raise would change it, or be learned as if it had."""

    async def life(service):
        await service.backfill("shop", [replace_query(logged(kit, number), "red shoes") for number in range(10)])
        await taught(kit, service, 10)
        shown = (await service.rank("shop", with_a_new_one(0))).ranking
        assert any(each.memory for each in shown), "the query is known"
        assert not await tried(service, range(100, 110))

    lived(storage, kit, life, algorithm="remember(curious=1.0) >> wmgd-dsp", **spec)


def test_a_document_below_the_top_has_its_place_by_what_users_chose(storage, kit):
    async def life(service):
        await visit(service, kit, range(30))
        await settled(kit, service, 30)
        asked = [same(number, below_top={"d3": 1, "d0": 1}) for number in range(100, 110)]
        assert {(await service.rank("shop", each)).ids.index("d3") for each in asked} == {1}

    lived(storage, kit, life)


def test_only_what_was_shown_and_is_ordered_by_the_ranker_counts(storage, kit):
    """A document that the client has placed says nothing about the ranker's order, and the second page was not asked for."""

    async def life(service):
        for number in range(10):
            shown = await service.rank("shop", same(number, fixed={"d3": 1}, page=3))
            clicks = ["d3", shown.ids[1]] if number % 2 else ["d3"]
            await service.feedback("shop", [kit.event(number, clicks, user_id=f"u{number}")])
        await settled(kit, service, 10)
        return service.memory("shop").remembered[0]

    found = lived(storage, kit, life, algorithm="remember(examination=WholeList(), curious=0) >> wmgd-dsp", length=6)
    counts = {each.id: (each.clicks, each.views) for each in found.documents}
    assert "d3" not in counts
    assert sum(clicks for clicks, _ in counts.values()) == 5
    assert sum(views for _, views in counts.values()) == 2 * found.lists
    kit.verified(storage)
