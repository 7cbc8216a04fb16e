"""Measures what a click farm can do to the memory of a query: how far one product rises, how many users that takes, what stops it.

A query has 20 products, of which three are relevant. Each day 100 honest users ask it, and a farm asks it too and clicks on one
irrelevant product, wherever it is. After five days the farm stops. For each farm: the position of its product by the ranker without
exploration at the end of each day, and after the last day by the weights alone. Everything goes through a service in memory, with a
clock of its own. With ``--guard``, the ranker imitates an order by the first feature, is compared with it, and the farm votes, too.
"""

from __future__ import annotations

import argparse
import asyncio

import numpy as np

from duelrank import parse
from duelrank.core.randomness import stream_key
from duelrank.core.types import NO_BOOSTS, Query
from duelrank.kernels.random import derive
from duelrank.service import Service, Settings
from duelrank.service.http.schema import Document, FeedbackEvent, GuardSpec, RankerSpec, RankRequest
from duelrank.service.settings import Clock
from duelrank.storage import open_storage
from duelrank.users import User

RECIPE = "remember >> thompson-pairs"
DAY, N_PRODUCTS, PRODUCT, QUERY = 86_400.0, 20, "p19", "running shoes"
LABELS = {f"p{number}": 2 if number in (3, 8, 12) else 0 for number in range(N_PRODUCTS)}
#: Kind of the farm: distinct users, one user, or no user ids; and its number of clicks a day.
FARMS = (
    ("distinct", 0),
    ("one user", 1000),
    ("distinct", 5),
    ("distinct", 20),
    ("distinct", 50),
    ("distinct", 100),
    ("distinct", 300),
    ("anonymous", 100),
)


class SetClock(Clock):
    """A clock whose date is set."""

    now = 20_000 * DAY

    def time(self) -> float:
        """Return the date."""
        return self.now


async def visit(service: Service, products: list[Document], user: str | None, clicks: object) -> None:
    """Ask the query, click, and leave; ``clicks`` are a product, or a function from labels to clicks."""
    answer = await service.rank("shop", RankRequest(products, query=QUERY, length=N_PRODUCTS))
    if isinstance(clicks, str):
        chosen = [clicks]
    else:
        flags = clicks(np.array([LABELS[id] for id in answer.ids], np.int8)).clicks  # type: ignore[operator]
        chosen = [id for id, flag in zip(answer.ids, flags, strict=True) if flag]
    await service.feedback("shop", [FeedbackEvent(answer.impression_id, chosen, close=True, user_id=user)])


async def positions(recipe: str, kind: str, clicks: int, honest: User, days: int, guard: bool) -> tuple[list[int], str]:
    """Return the position of the farm's product at the end of each day, and how it ended."""
    features = np.random.default_rng(1).random((N_PRODUCTS, 5)).round(6).tolist()
    rows = sorted(zip(LABELS, features, strict=True), key=lambda each: -each[1][0])
    products = [Document(id, row) for id, row in rows]
    clock, key, number, found = SetClock(), stream_key(1, "clicks"), 0, []
    with open_storage("sqlite://") as storage:
        service = Service(storage, Settings(publish_every=0.0, salt=b"farm"), clock)
        await service.start()
        await service.wait_ready()
        spec = RankerSpec(
            "shop", recipe, tuple("abcde"), representation="query-scaled", guard=GuardSpec() if guard else None
        )
        await service.create(spec)
        for day in range(days):
            visits = [False] * 100 + [True] * (clicks if day < days // 2 else 0)
            for farmed in np.random.default_rng(day).permutation(visits).tolist():
                number += 1
                user = {"distinct": f"f{number}", "one user": "f", "anonymous": None}[kind] if farmed else f"u{number}"
                honest_clicks = lambda labels, n=number: honest.click(labels, derive(key, n))  # noqa: E731
                await visit(service, products, user, PRODUCT if farmed else honest_clicks)
            found.append((await position(service, products))[0])
            clock.now += DAY
        alone = (await position(service, products))[1]
        state = service.guard("shop") if guard else None
        await service.stop()
    return found, f"{alone:10}" + (f"  {state.state}: {state.wins} won, {state.losses} lost" if state else "")


async def position(service: Service, products: list[Document]) -> tuple[int, int]:
    """Return the position of the farm's product without exploration, when all feedback is learned; and by weights alone."""
    while service._rankers["shop"].newest_status().open:
        await asyncio.sleep(0.01)
    ranker = service._rankers["shop"]
    machine = ranker.machine
    assert machine is not None
    raw = np.array([each.features for each in products])
    ids = [each.id for each in products]
    definition = machine.definition
    remember, boosts = definition.remember, NO_BOOSTS
    if remember is not None:
        boosts = remember.boosts(machine.remembered, Query(QUERY, raw, documents=ids))
    lists = [definition.best(machine.state, "best", raw, each) for each in (boosts, NO_BOOSTS)]
    return tuple(each.index(ids.index(PRODUCT)) + 1 for each in lists)  # type: ignore[return-value]


def main() -> None:
    """Print a line for each farm."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe", nargs="?", default=RECIPE)
    parser.add_argument("--user", default="navigational")
    parser.add_argument("--days", type=int, default=10)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--guard", action="store_true")
    asked = parser.parse_args()
    honest = parse(asked.user, User).for_grades(3)
    print(
        f"median position of the product after each day, and by weights alone; the farm stops after day {asked.days // 2}"
    )
    for kind, clicks in FARMS:
        farm = (asked.recipe, kind, clicks, honest, asked.days, asked.guard)
        runs = [asyncio.run(positions(*farm)) for _ in range(asked.runs)]
        medians = np.median([found for found, _ in runs], axis=0)
        ends = "; ".join(end.strip() for _, end in runs)
        print(f"{kind:10} {clicks:5}  {' '.join(f'{each:4g}' for each in medians)}  {ends}", flush=True)


if __name__ == "__main__":
    main()
