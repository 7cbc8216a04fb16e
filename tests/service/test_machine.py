"""The machine: a pure function of its events, which may stop and go on anywhere."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duelrank.algorithms import MGD
from duelrank.core.errors import StoreCorrupt, StoreLocked
from duelrank.core.types import State
from duelrank.evidence import GuardSpec
from duelrank.evidence import guard as guarding
from duelrank.evidence.guard import BASELINE as BASELINE_TEAM
from duelrank.evidence.guard import LEARNED as LEARNED_TEAM
from duelrank.representation import curves as knots
from duelrank.service.definition import (
    BASELINE,
    CLICK,
    EXPLORED,
    GREEDY,
    GUARD,
    Change,
    Definition,
    RankerSpec,
    pack_teams,
)
from duelrank.service.log import (
    Control,
    Published,
    StoredFeedback,
    StoredImpression,
    StoredLog,
    digest,
    pack,
    pack_state,
    unpack,
    unpack_state,
)
from duelrank.service.machine import VERSION_WINDOW, Machine
from duelrank.service.views import history_answer
from duelrank.storage import Event

DEFINITION = Definition(RankerSpec("shop", "mgd-dsp", ("a", "b", "c"), length=3, seed=3), 0.0)
CURVES = [
    Definition(RankerSpec("shop", "pdgd", ("a", "b", "c"), representation, length=3, seed=3), 0.0)
    for representation in ("ramps", "query-scaled >> curves", "query-scaled")
]
FIXED = Definition(
    RankerSpec(
        "shop",
        "mgd-dsp",
        ("a", "b", "c"),
        {"kind": "fixed", "features": {"a": {"min_max": {"minimum": 0.0, "maximum": 2.0}}}},
        length=3,
        seed=3,
        guard=GuardSpec(0.7, 2.0, promote=(0.5, 1.0)),
        imitate=0,
    ),
    0.0,
)
IMITATES = Definition(
    RankerSpec("shop", "pdgd", ("a", "b", "c"), "ramps", length=3, seed=3, guard=GuardSpec(0.7), imitate=3), 0.0
)
CHANGES = [
    Change(add_features=("d",)),
    Change(retire_features=("b",)),
    Change(add_features=("e",), retire_features=("a",)),
    Change(guard=None),
    Change(guard=GuardSpec(0.7, 2.0, promote=(0.5, 1.0))),
    Change(guard=GuardSpec(0.5, 3.0, on_alarm="rollback", promote=(1.0,)), length=2),
]
GUARDED = [
    Definition(
        RankerSpec(
            "shop",
            "mgd-dsp",
            ("a", "b", "c"),
            representation,
            length=3,
            seed=3,
            guard=GuardSpec(0.7, 2.0, promote=(0.5, 1.0), on_alarm=on_alarm),
            imitate=0,
        ),
        0.0,
    )
    for on_alarm, representation in (("baseline", None), ("rollback", None), ("tell", None), ("rollback", "curves"))
]

TEAMS = pack_teams(np.array([BASELINE_TEAM, LEARNED_TEAM, -1]))

# What may happen: a list (of six, so that some come twice), clicks on it by one of two users or nobody known, its end, a version,
# a word from above, what the guard asks for.
steps = st.one_of(
    st.tuples(st.just("ranked"), st.integers(0, 5), st.integers(0, 2)),
    st.tuples(
        st.just("feedback"),
        st.integers(0, 5),
        st.sets(st.integers(0, 2)),
        st.none() | st.integers(0, 3),
        st.integers(0, 2),
    ),
    st.tuples(st.just("closed"), st.integers(0, 5)),
    st.tuples(
        st.just("logged"), st.integers(0, 5), st.sampled_from([CLICK, "purchase", "gift"]), st.sets(st.integers(0, 2))
    ),
    st.tuples(st.just("published"), st.booleans()),
    st.tuples(st.just("control"), st.sampled_from(["freeze", "resume", "rollback", "pin", "unpin"])),
    st.tuples(st.just("guard")),
    st.tuples(st.just("change"), st.integers(0, len(CHANGES) - 1)),
    st.tuples(st.just("wait"), st.sampled_from([1.0, 60.0, 3600.0, 100_000.0, -30.0, -7200.0])),
)


class Log:
    """Makes events as a service would, which lets no key come twice and closes no list before it is there."""

    def __init__(self, definition: Definition = DEFINITION) -> None:
        self.definition = definition
        self.events: list[Event] = []
        self.shown: dict[str, tuple[StoredImpression, np.ndarray]] = {}
        self.states: dict[int, State] = {1: definition.start}
        self.features = {1: definition.spec.features}
        self.attached: dict[int, np.ndarray] = {}
        self.machine, self.now = self.fresh(), 1e6

    def fresh(self) -> Machine:
        return Machine(self.definition, self.fetch, self.states.get, max_states=1, fetch_features=self.attached.get)

    def fetch(self, id, number):
        return self.shown.get(id)

    def add(self, kind, key, body) -> None:
        self.events.append(Event(3 * len(self.events) + 1, "shop", kind, key, self.now, body))
        self.machine.apply(self.events[-1])

    def step(self, kind, *what) -> None:
        machine = self.machine
        definition = machine.definition
        if kind == "ranked" and f"i{what[0]}" not in self.shown:
            version = max(1, machine.version - what[1])  # who serves may be a little behind
            if self.features[version] != definition.spec.features:
                return  # and knows other features then: what it makes teaches nothing, and is not made here
            shape = (5, len(definition.spec.features))
            key, raw = f"i{what[0]}", np.random.default_rng(what[0]).random(shape)
            raw.flags.writeable = False
            share = 1.0 if machine.guard is None else machine.guard.learned_share
            list_kind = definition.list_kind(key, machine.frozen, share, machine.imitates)
            order, teams = definition.order(list_kind, self.states[version], key, raw, 3)
            self.shown[key] = StoredImpression.of(version, list("vwxyz"), order, list_kind, teams), raw
            self.add("ranked", key, pack(self.shown[key][0]))
        elif kind == "feedback":
            user = (b"", b"user 001", b"user 002")[what[3] if len(what) > 3 else 0]
            body = StoredFeedback(f"i{what[0]}", sorted(what[1]), what[2], None, user)
            self.add("feedback", f"e{len(self.events)}", pack(body))
        elif kind == "logged":
            raw = np.random.default_rng(what[0]).random((5, len(definition.spec.features)))
            raw.flags.writeable = False
            self.attached[3 * len(self.events) + 1] = raw
            body = StoredLog(3, {what[1]: sorted(what[2])}, None, definition.names_digest)
            self.add("logged", f"l{len(self.events)}", pack(body))
        elif kind == "closed":
            self.add("closed", f"{len(self.events)}", pack(f"i{what[0]}"))
        elif kind == "published":
            body = machine.publication()
            if what and what[0]:  # as early stores have it
                body = Published(body.version, body.previous)
            self.add("published", str(machine.version + 1), pack(body))
            self.states[machine.version] = machine.served
            self.features[machine.version] = definition.spec.features
        elif kind == "control":
            state = pack_state(machine.served) if what[0] in ("rollback", "pin") else None
            features = self.features[machine.version] if state else None
            self.add(
                "control", f"{len(self.events)}", pack(Control(what[0], machine.version, state, features=features))
            )
        elif kind == "change":
            self.add("control", f"{len(self.events)}", pack(Control("change", change=CHANGES[what[0]])))
        elif kind == "wait":
            self.now += what[0]
        elif kind == "guard" and (due := machine.watch.due()) is not None:
            self.add("control", due[0], pack(due[1]))


@pytest.mark.parametrize("definition", [DEFINITION, *CURVES], ids=lambda each: each.spec.representation)
@given(st.lists(steps, max_size=40), st.integers(0, 40))
def test_it_may_be_restored_at_any_event(definition, taken, where):
    with patch.object(knots, "FIRST", 1):  # knots move after 1, 2, 4, … lists
        _stop_and_go_on(definition, taken, where)


@pytest.mark.parametrize(
    "definition",
    [*GUARDED, FIXED, IMITATES],
    ids=["baseline", "rollback", "tell", "rollback-curves", "fixed", "imitates"],
)
@given(st.lists(steps, max_size=60), st.integers(0, 60))
def test_a_guarded_one_may_too(definition, taken, where):
    # Proofs and promotions after a list or two; knots move after 1, 2, 4, … lists.
    with patch.multiple(guarding, LEVEL=0.9, SLACK=0.9), patch.object(knots, "FIRST", 1):
        _stop_and_go_on(definition, taken, where)


def _stop_and_go_on(definition, taken, where):
    log = Log(definition)
    for step in taken:
        log.step(*step)
    first, second = log.fresh(), log.fresh()
    for event in log.events[:where]:
        first.apply(event)
    second.restore(first.checkpoint())
    assert second.checkpoint() == first.checkpoint()
    names = (first.definition.spec.features, first.definition.names_digest)
    history_answer("shop", "day", [], first.history.copy(first.step_end()), *names)  # whenever one looks
    for event in log.events:  # those before `where` once more: they count once
        second.apply(event)
    assert second.checkpoint() == log.machine.checkpoint()
    assert second.references == log.machine.references
    # Who cannot load earlier states holds those that are needed.
    alone = Machine(definition, log.fetch, fetch_features=log.attached.get)
    for event in log.events:
        alone.apply(event)
    assert alone.checkpoint() == log.machine.checkpoint()
    assert all(version in alone.references or version >= alone.version - VERSION_WINDOW for version in alone._states)
    waiting = Counter(each.version for each in alone.order.lists.values() if each is not None)
    assert alone.references == Counter(each.version for each in alone.open.values()) + waiting
    assert alone.needs()[1] >= set(waiting)
    assert waiting.total() == 0 or alone.order.first in {each.number for each in alone.open.values()}
    tally = log.machine.tally
    assert tally.failed == 0
    assert tally.impressions == tally.learned + tally.skipped + tally.no_feedback + len(log.machine.open)


def _clicked(definition, closing, votes, in_order=True):
    """Return a log of guard lists that were all shown first, and closed in some order."""
    log = Log(definition)
    for number, (team, user) in enumerate(votes):
        log.now = 1e6 + 20_000.0 * number  # so that users vote on several days
        body = StoredImpression.of(1, list("vwx"), [0, 1, 2], GUARD, TEAMS)
        log.add("ranked", f"i{number}", pack(msgspec.structs.replace(body, in_order=in_order)))
        clicks = [] if team is None else [team]
        log.add("feedback", f"e{number}", pack(StoredFeedback(f"i{number}", clicks, None, None, user)))
    for number in closing:
        log.now += 1.0
        log.add("closed", f"c{number}", pack(f"i{number}"))
    return log


@given(
    st.lists(st.tuples(st.sampled_from([0, 1, None]), st.sampled_from([b"", b"user 001", b"user 002"])), max_size=30),
    st.randoms(use_true_random=False),
)
def test_what_a_guard_knows_does_not_depend_on_the_order_of_closing(votes, random):
    """Once all are closed; before that, it knows what it knew when the earlier ones were closed."""
    definition, known = GUARDED[1], {}
    numbers = list(range(len(votes)))
    for closing in (numbers, random.sample(numbers, len(numbers))):
        for end in range(len(numbers) + 1):
            machine = _clicked(definition, closing[:end], votes).machine
            done = sum(msgspec.structs.astuple(machine.guard.counts))
            assert done + machine.order.waiting == end
            assert machine.guard == known.setdefault(done, machine.guard)
    assert machine.order.lists == {}


def test_lists_of_early_stores_are_counted_when_they_close():
    votes = [(0, b""), (1, b"user 001"), (1, b"user 001")]
    old = _clicked(GUARDED[2], [2, 1], votes, in_order=False).machine
    assert (old.guard.counts.wins, old.guard.counts.repeated) == (1, 1), "both on the day on which they were closed"
    assert old.order.lists == {}
    new = _clicked(GUARDED[2], [2, 1, 0], votes).machine
    assert (new.guard.counts.wins, new.guard.counts.repeated) == (2, 0), "on the days on which they were shown"
    # Their bodies end before the flag that later ones have, and before the fields after it.
    body = msgspec.msgpack.encode(msgspec.msgpack.decode(pack(StoredImpression.of(1, [], [], GUARD))[2:])[:-4])
    assert not unpack(body, StoredImpression).in_order


def test_lists_that_learn_are_not_waited_for():
    log = _clicked(GUARDED[2], [], [(1, b"")])
    for kind in (EXPLORED, GREEDY, BASELINE):
        log.add("ranked", f"k{kind}", pack(StoredImpression.of(1, list("vwx"), [0, 1, 2], kind)))
    log.add("ranked", "last", pack(StoredImpression.of(1, list("vwx"), [0, 1, 2], GUARD, TEAMS)))
    assert list(log.machine.order.lists) == [log.machine.open["i0"].number, log.machine.open["last"].number]


def test_lists_are_not_waited_for_after_their_features_have_changed():
    log = _clicked(GUARDED[2], [1], [(None, b""), (1, b"")])
    log.step("change", 0)
    log.add("closed", "old", pack("i0"))
    assert (log.machine.guard.counts.wins, log.machine.guard.counts.no_click) == (1, 0)
    assert log.machine.order.lists == {}


def test_nothing_rolls_back_to_a_version_with_other_features_than_now():
    log = _clicked(GUARDED[1], [1], [(None, b""), (1, b"")])
    log.step("change", 0)
    with patch.object(guarding, "LEVEL", 0.9):
        log.add("closed", "first", pack("i0"))
    assert (log.machine.guard.counts.wins, log.machine.watch.proven) == (1, None)


def test_a_version_is_there_until_its_guard_lists_are_counted():
    log = Log(GUARDED[1])
    head = (list("vwx"), [0, 1, 2], GUARD, TEAMS)
    for number in range(2):
        log.add("ranked", f"i{number}", pack(StoredImpression.of(1, *head)))
    log.add("feedback", "e", pack(StoredFeedback("i1", [1], None, None)))
    log.add("closed", "c1", pack("i1"))
    for _ in range(VERSION_WINDOW + 5):
        log.step("published")
    alone = Machine(log.definition, log.fetch)
    for event in log.events:
        alone.apply(event)
    assert (alone.references, 1 in alone.needs()[1]) == ({1: 2}, True)
    with patch.object(guarding, "LEVEL", 0.9):
        event = Event(10_000, "shop", "closed", "c0", 1e6, pack("i0"))
        failing = patch.object(alone, "state_of", side_effect=StoreLocked("busy"))
        with failing, pytest.raises(StoreLocked):
            alone.apply(event)
        alone.apply(event)
    assert alone.guard.counts.wins == 1
    assert alone.guard.counts.no_click == 1
    assert alone.watch.proven[0] == 1
    assert not alone.references


@pytest.mark.parametrize("n_loaded", [1, 2])
def test_a_store_that_fails_while_guard_lists_are_counted_counts_none_twice(n_loaded):
    """Two lists wait for a third one; the versions that made them have to be loaded."""
    log = Log(GUARDED[1])
    for number in range(3):
        kind, teams = (EXPLORED, b"") if number == 0 else (GUARD, TEAMS)
        log.add(
            "ranked", f"i{number}", pack(StoredImpression.of(log.machine.version, list("vwx"), [0, 1, 2], kind, teams))
        )
        log.shown[f"i{number}"] = StoredImpression.of(1, list("vwx"), [0, 1, 2], kind, teams), np.eye(3)
        log.add("feedback", f"e{number}", pack(StoredFeedback(f"i{number}", [1], None, None)))
        log.step("published")
    for number in (2, 0):
        log.add("closed", f"c{number}", pack(f"i{number}"))
    machine, last = log.fresh(), Event(10_000, "shop", "closed", "c1", 1e6, pack("i1"))
    for event in log.events:
        machine.apply(event)
    log.machine.apply(last)
    load, calls = log.states.get, []

    def failing(version):
        calls.append(version)
        if len(calls) == n_loaded:
            raise StoreLocked("busy")
        return load(version)

    machine._load_state = failing
    with pytest.raises(StoreLocked):
        machine.apply(last)
    machine.apply(last)
    assert machine.guard.counts.wins == 2
    assert machine.checkpoint() == log.machine.checkpoint()


def test_after_a_failure_of_the_store_the_event_can_be_applied_again():
    log = Log()
    for step in [("ranked", 1, 0), ("feedback", 1, {1}, None), ("closed", 1)]:
        log.step(*step)
    fails = [True]

    def fetch(id, number):
        if fails:
            fails.clear()
            raise StoreLocked("busy")
        return log.shown[id]

    machine = Machine(DEFINITION, fetch)
    for event in log.events[:2]:
        machine.apply(event)
    with pytest.raises(StoreLocked):
        machine.apply(log.events[2])
    machine.apply(log.events[2])
    assert machine.checkpoint() == log.machine.checkpoint()
    assert machine.tally.learned == 1


@pytest.mark.parametrize("way", ["rollback", "alarm"])
def test_after_going_back_a_log_begins_anew_from_there(way):
    log = Log(GUARDED[1])
    for number in range(3):
        log.step("logged", number, CLICK, {1})
    log.step("published")
    machine, start = log.machine, log.definition.start
    taught = machine.state.weights
    assert taught.any()
    if way == "rollback":
        log.add("control", "back", pack(Control("rollback", 1, pack_state(start), features=("a", "b", "c"))))
    else:
        with patch.object(machine.watch, "act", lambda *what: start):
            log.add("control", "alarm/1", pack(Control("alarm")))
    assert not machine.state.weights.any()
    log.step("logged", 3, CLICK, {1})
    assert machine.logged.step == 1
    assert machine.state.weights.any()
    assert not np.allclose(machine.state.weights, taught)


def test_lists_of_versions_long_gone_teach_nothing():
    for behind, learned in ((VERSION_WINDOW, 1), (VERSION_WINDOW + 1, 0)):
        log = Log()
        for _ in range(30):
            log.step("published")
        for step in [("ranked", 1, behind), ("feedback", 1, {1}, None), ("closed", 1)]:
            log.step(*step)
        alone = Machine(DEFINITION, log.fetch)
        for event in log.events:
            alone.apply(event)
        for machine in (alone, log.machine):
            assert (machine.tally.learned, machine.tally.skipped, machine.tally.failed) == (learned, 1 - learned, 0)
        assert len(alone._states) <= VERSION_WINDOW + 1


def test_what_it_does_not_know_it_refuses():
    with pytest.raises(StoreCorrupt, match="kind"):
        Log().add("deleted", "x", b"")
    with pytest.raises(StoreCorrupt, match="StoredImpression"):
        Log().add("ranked", "x", b"\xc1")
    with pytest.raises(StoreCorrupt):
        Log().machine.restore(b"\x90")


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5),
    st.sampled_from(["<f8", "<i8", "<u8", "|b1", "<f4"]),
    st.lists(st.integers(0, 3), max_size=3),
)
def test_states_are_packed_to_the_bit(weights, kind, shape):
    state = State(np.array(weights), 3, 2, {"b": np.ones(shape, kind), "a": np.arange(3)})
    found = unpack_state(pack_state(state), MGD())
    assert found == state
    assert found.memory["b"].dtype == np.dtype(kind)
    assert not found.weights.flags.writeable
    assert digest(found) == digest(State(state.weights, 3, 2, dict(reversed(state.memory.items()))))
    assert digest(found) != digest(State(state.weights, 4, 2, state.memory))


def test_damaged_arrays_are_refused():
    state = pack_state(State(np.zeros(2), memory={"a": np.zeros(3)}))
    for old, new in ((b"<f8", b"|O8"), (b"<f8", b"<f9"), (b"\x91\x03", b"\x91\x04")):
        assert old in state
        with pytest.raises(StoreCorrupt):
            unpack_state(state.replace(old, new), MGD())
    with pytest.raises(StoreCorrupt):
        unpack(b"nonsense", StoredImpression)
