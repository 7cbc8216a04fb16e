"""Structs of the HTTP API, which JSON and MessagePack are decoded into and encoded from; shared by the service and the client."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

#: The action of a feedback event that names none.
CLICK = "click"

Mode = Literal["learn", "shadow", "frozen"]
OnAlarm = Literal["baseline", "rollback", "tell"]
Anonymous = Literal["count", "ignore"]
Precision = Literal["float32", "float64"]


class Start(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The source of the initial weights: exactly one of weights, model and ranker.

    Parameters
    ----------
    weights
        Weights by feature name; missing ones are 0.
    model
        A model that was exported with format=json.
    ranker
        ``"from"`` in JSON: name of another ranker of this service.
    version
        Version of that ranker, by default its current one.
    """

    weights: dict[str, float] | None = None
    model: dict[str, Any] | None = None
    ranker: str | None = msgspec.field(name="from", default=None)
    version: int | None = None


class GuardSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of a guard, which compares a ranker with its baseline, the order in which the client sends the documents.

    Parameters
    ----------
    share
        Share of all lists that compare: a team draft of the client's order and the best list of the served version.
    false_alarm_every
        Lower bound of the mean number of decisive lists between two false alarms.
    margin
        Distance below one half that the probability of winning a decisive list may have without an alarm.
    on_alarm
        "baseline" serves the client's order and stops learning until an operator resumes the ranker; "rollback" restores the
        newest version with proved gain, or acts as "baseline" if there is none; "tell" only reports the alarm.
    promote
        Shares of the other lists that the learned ranker decides, one for each rung; the rest is in the client's order.
    webhook
        The http or https address that receives alarms and promotions; only with an admin key for all rankers.
    anonymous
        Treatment of decisive lists whose feedback has no ``user_id``: "count" counts all of them, "ignore" none. Without a user,
        there is no limit of one vote a day.
    """

    share: float = 0.2
    false_alarm_every: float = 1_000_000.0
    margin: float = 0.0
    on_alarm: OnAlarm = "baseline"
    promote: tuple[float, ...] = (0.5, 1.0)
    webhook: str | None = None
    anonymous: Anonymous = "count"


class _Definition(msgspec.Struct, frozen=True):
    """Fields that define a ranker; `RankerSpec` explains them."""

    name: str
    algorithm: str
    features: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    representation: str | dict[str, Any] | None = None
    length: int = 10
    exploration: float = 1.0
    mode: Mode = "learn"
    seed: int = 0
    close_after: float = 1800.0
    start: Start | None = None
    precision: Precision = "float64"
    retired: tuple[str, ...] = ()
    guard: GuardSpec | None = None
    actions: dict[str, float] = msgspec.field(default_factory=lambda: {CLICK: 1.0})
    imitate: int | None = None
    context: dict[str, tuple[str, ...]] = {}


class RankerSpec(_Definition, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The specification of a ranker.

    Parameters
    ----------
    name
        Name of the ranker: at most 100 letters, digits and ``_ . -``, the first a letter or digit.
    algorithm
        A recipe, such as ``"mgd-dsp"``; it may begin with a representation, ``"query-scaled >> curves >> mgd-dsp"``.
    features
        Names of the features, in the order of dense arrays; at least one, each of 1 to 200 printable characters.
    representation
        Representation of the features: a recipe, such as ``"query-scaled >> curves"``, or fixed scalings by name,
        ``{"kind": "fixed", "features": {"price": {"min_max": {"minimum": 0, "maximum": 900}}}}``. By default that of the recipe, or
        that of the model or ranker to start from, or ``"curves"``.
    length
        Number of documents in an impression, unless a request gives it.
    exploration
        Share of impressions that explore; the others are in the order of the current weights, and are not learned from.
    mode
        "learn"; "shadow" serves the documents in the order in which the client sent them, or in that of a pinned version, and
        learns from the feedback on that; "frozen" serves the current weights and does not learn until it is resumed.
    seed
        Random seed; lists also depend on a secret salt of the ranker, so that they cannot be predicted.
    close_after
        Seconds after which an open impression is closed.
    start
        The initial weights: ``{"weights": {"bm25": 1.0}}``, ``{"model": …}`` (as exported with format=json) or
        ``{"from": "shop", "version": 40}``; zero by default.
    precision
        Precision in which features are kept until they are learned from; with "float32" they are also rounded before ranking.
    retired
        Names of features that requests may still contain, and that are ignored.
    guard
        Settings of the guard, which compares the ranker with the client's own order; ``{}`` for the defaults, None for no guard.
    actions
        Weights of actions on a document by name: ``{"click": 1, "add_to_cart": 3, "purchase": 10}``. Of several actions on one
        document the heaviest counts. Actions without a weight are accepted, and have no effect. A name has 1 to 100 printable
        characters.
    imitate
        Number of lists that are shown in the client's order before anything else, while the ranker learns to imitate that order;
        lists of a log that it has learned from are included. By default 300 for a ranker with a guard and without a start, and 0
        otherwise.
    context
        Names of contexts, such as ``{"mobile": ["price"]}``, with the features that each is multiplied with: the ranker then has
        the further feature ``mobile*price``, and requests give ``"context": {"mobile": 1}``. At most 200 products.
    missing
        Features whose value a document may lack (null, NaN, or left out): names, ``["price"]``, for a neutral value, which is the
        mean of the other documents of the request; or by name "neutral" or the number that it counts as. It becomes a part of the
        representation.
    """

    missing: tuple[str, ...] | dict[str, Literal["neutral"] | float] | msgspec.UnsetType = msgspec.UNSET


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A change of a ranker; fields that are not given stay as they are.

    Parameters
    ----------
    exploration, close_after, length, mode
        As in `RankerSpec`.
    missing
        All features whose values may be missing, as in `RankerSpec`; this changes the representation.
    add_features
        Names of new features, after the others; their weights start at zero.
    retire_features
        Names of features to remove; requests may still contain them by name, and they are ignored.
    guard
        Settings of the guard, or None to remove it. The guard starts again if false_alarm_every, margin or promote change.
    actions
        Weights of actions, for all later feedback.
    context
        All contexts, as in `RankerSpec`; products that are no longer among them are removed.
    representation
        Another representation of the features, as in `RankerSpec`. Its weights are fitted to the scores of the served version, on
        lists whose features are still in the store, at least 50; the guard starts again on its present rung.
    """

    exploration: float | None = None
    close_after: float | None = None
    length: int | None = None
    mode: Mode | None = None
    add_features: tuple[str, ...] = ()
    retire_features: tuple[str, ...] = ()
    guard: GuardSpec | msgspec.UnsetType | None = msgspec.UNSET
    actions: dict[str, float] | None = None
    representation: str | dict[str, Any] | None = None
    context: dict[str, tuple[str, ...]] | None = None
    missing: tuple[str, ...] | dict[str, Literal["neutral"] | float] | msgspec.UnsetType = msgspec.UNSET


class Fit(msgspec.Struct, frozen=True):
    """How well weights for another representation were fitted to the scores of the present one, on a number of ``lists``.

    ``share`` is the share of ``pairs`` of documents, of lists that were left out of the fit, that keep their order.
    """

    lists: int
    pairs: int
    share: float


class RankerInfo(_Definition, frozen=True, kw_only=True):
    """The state of a ranker.

    In addition to its specification: the number of ``impressions``; of closed impressions that were learned from (``learned``), had
    no feedback (``no_feedback``; they may never have been seen, and have no effect), had feedback and were not learned from
    (``skipped``; by reason in ``skipped_by_reason``), or could not be learned from, which is never normal (``failed``); of ``open``
    impressions; of logged lists of other systems that it has learned from (``backfilled``), and that arrived too late for that
    (``unused``); of lists, of a log or in the client's order, that it has imitated, at most ``imitate`` (``imitated``); the version
    that a shadow serves (``pinned``), None if it serves the client's own order. Counts are at most two seconds old, in every
    process. ``remembers`` is whether it remembers what the users of each query chose. ``warnings`` are messages for the operator.
    ``fit`` is in the answer to a change of the representation only.

    Reasons to skip a list are its kind, "guard", "baseline" or "greedy" (see `RankAnswer`); "frozen", learning was stopped by an
    operator; "alarm", it was stopped by the guard; and "old", the list was made before a change of features, representation or
    guard, or by a version that is older than 16 versions. Reasons of lists that an earlier release has skipped are not known.
    """

    impressions: int
    learned: int
    model_version: int
    no_feedback: int = 0
    skipped: int = 0
    skipped_by_reason: dict[str, int] = {}
    failed: int = 0
    open: int = 0
    updates: int = 0
    created: float = 0.0
    frozen: bool = False
    pinned: int | None = None
    backfilled: int = 0
    unused: int = 0
    warnings: tuple[str, ...] = ()
    imitated: int = 0
    fit: Fit | None = None
    remembers: bool = False


class Document(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A candidate: its id, and its features, in order or by name; null is a missing value, for features that may be missing."""

    id: str
    features: list[float | None] | dict[str, float | None]


class DocumentTable(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Candidates in compact form: their ids, and all features, document by document.

    The features are little-endian floating point numbers: in JSON as base64 text, in MessagePack as bytes.
    """

    ids: list[str]
    features: bytes
    type: Precision = "float32"


class RankRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request for a ranking.

    Parameters
    ----------
    documents
        The candidates, with unique ids; or all of them as one table.
    impression_id
        Id of this impression; a request with the same id returns the same order. Generated by default.
    length
        Number of documents to show, by default that of the ranker; an impression keeps its length.
    explain
        Whether to return scores, and what each feature adds to them.
    query
        Text of the query, for a ranker that remembers queries; upper and lower case, and the number of spaces, do not matter.
    query_key
        An opaque name of the query instead of its text, for clients that must not send texts.
    context
        Numbers that are the same for all documents, ``{"mobile": 1}``, by the names in the ranker's ``context``; 0 unless given.
    fixed
        Positions of documents by id, from 1: ``{"sku42": 1}``. They need not be among the documents. If there are too few
        documents, they are at the end. Clicks on them are not learned from.
    below_top
        By id of a document k, if it may not be in the top k: ``{"sku7": 3}``. If there are fewer than k others, it comes after
        those that may be anywhere. Clicks on it are not learned from.
    page
        Number of positions to return now, if the rest of the ``length`` is for further pages (see `PageRequest`); all by default.
        Only positions of returned pages are learned from.
    """

    documents: list[Document] | DocumentTable
    impression_id: str | None = None
    length: int | None = None
    explain: bool = False
    query: str | None = None
    query_key: str | None = None
    context: dict[str, float] = {}
    fixed: dict[str, int] = {}
    below_top: dict[str, int] = {}
    page: int | None = None


class RankedDocument(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A document of a ranking; ``position`` counts from 1. With ``explain``: its score, and what each feature adds to it.

    A ranker that is not linear has scores only. ``deviation`` is the standard deviation of the score, for an algorithm with a
    belief about its weights, which count as independent. ``memory`` is what the memory of the query adds to the score, if anything.
    ``placed`` is whether ``fixed`` or ``below_top`` decided the position, which then has no score.
    """

    id: str
    position: int
    score: float | None = None
    explain: dict[str, float] | None = None
    deviation: float | None = None
    memory: float | None = None
    placed: bool = False


class RankAnswer(msgspec.Struct, frozen=True):
    """A ranking to show, best first, the impression id for its feedback, and the kind of the list.

    ``kind`` is "explored" (learned from), "greedy" (best first, without exploration), "frozen" (the same, of a frozen ranker),
    "guard" (a team draft with the client's order), "baseline" (the client's order, by decision of the guard) or "shadow".
    ``prepared`` is the number of positions of all pages, in answers with a page.
    """

    impression_id: str
    model_version: int
    ranking: list[RankedDocument]
    kind: str = ""
    prepared: int | msgspec.UnsetType = msgspec.UNSET

    @property
    def ids(self) -> list[str]:
        """The ids of the documents, best first."""
        return [each.id for each in self.ranking]


class PageRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A request for another page of an impression.

    Parameters
    ----------
    impression_id
        Id of the impression.
    start
        First position of the page, from 1.
    size
        Number of positions; fewer are returned at the end of the list.
    """

    impression_id: str
    start: int
    size: int = 10


class FeedbackEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Feedback of a user on an impression.

    Parameters
    ----------
    impression_id
        Id of the impression.
    clicks
        Ids of documents that were clicked, or on which ``action`` was performed; each counts once per impression.
    examined
        Number of examined positions, only if it was observed.
    close
        Whether this is the last event of the impression: the ranker may learn from it now.
    event_id
        The idempotency key: the event counts once, however often it is sent. Derived from the content by default.
    time
        Time by the client's clock; stored, and not used.
    user_id
        Any text that identifies a user. Only a hash is stored. A user has one vote a day in the guard. An empty text is the same
        as none.
    action
        Action on the documents: "click", "purchase" …; the ranker's ``actions`` have its weight.
    removed
        Ids of documents of the list that were not shown, such as those that are out of stock: the ranker learns from the list
        without them. One that is clicked was shown after all.
    """

    impression_id: str
    clicks: list[str] = []
    examined: int | None = None
    close: bool = False
    event_id: str | None = None
    time: float | None = None
    user_id: str | None = None
    action: str = CLICK
    removed: list[str] = []


class Invalid(msgspec.Struct, frozen=True):
    """The reason why an event, the ``index``-th of its request from 0, or some of its clicks, were not accepted."""

    index: int
    event_id: str | None
    reason: str


class LoggedImpression(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A logged list that another system ranked and showed, and the feedback on it.

    Parameters
    ----------
    impression_id
        Id of this list: it counts once, however often it is sent in the retention time.
    documents
        The documents that were shown, in this order; after them there may be others that were not shown.
    clicks
        Ids of documents that were clicked.
    actions
        Ids of documents by other actions: ``{"purchase": ["d3"]}``.
    examined
        Number of examined positions, only if it was observed.
    shown
        Number of documents that were shown, by default all.
    query, query_key
        As in a request for a ranking: a ranker that remembers queries remembers this list, too.
    context
        As in a request for a ranking.
    """

    impression_id: str
    documents: list[Document] | DocumentTable
    clicks: list[str] = []
    actions: dict[str, list[str]] = {}
    examined: int | None = None
    shown: int | None = None
    query: str | None = None
    query_key: str | None = None
    context: dict[str, float] = {}


class BackfillCounts(msgspec.Struct, frozen=True):
    """Counts of the lists of a request: new ones (``accepted``), ones that were sent before (``duplicate``), and invalid ones.

    A list is recognised by its id for ``known_for`` seconds, the retention time; sent again later, it would be learned from again.
    """

    accepted: int = 0
    duplicate: int = 0
    invalid: list[Invalid] = []
    known_for: float = 0.0


class FeedbackCounts(msgspec.Struct, frozen=True):
    """Counts of the events of a request: each is counted once, in one of the first four or in ``invalid``.

    If some clicks of an event are on documents that were not shown, the event is accepted with the other clicks, and is also listed
    in ``invalid``; if no click and no other feedback is left, it is invalid only. ``warnings`` has one sentence for each reason why
    feedback had no effect: an action without a weight, a document that was not shown, an unknown impression.
    """

    accepted: int = 0
    duplicate: int = 0
    unknown: int = 0
    expired: int = 0
    invalid: list[Invalid] = []
    warnings: list[str] = []


class VersionNumber(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model version to restore or to serve."""

    version: int


class VersionLabel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model version to keep under a label, of 1 to 100 printable characters; "" removes the label."""

    version: int
    label: str


class RememberedDocument(msgspec.Struct, frozen=True):
    """A document that users of a query have seen: its clicks and views, and what they add to its score."""

    id: str
    clicks: float
    views: float
    boost: float


class RememberedQuery(msgspec.Struct, frozen=True):
    """A query that is remembered: its number of lists, its largest boost in either direction, and its documents, the best first."""

    query: str
    lists: int
    effect: float
    documents: list[RememberedDocument]


class MemoryInfo(msgspec.Struct, frozen=True):
    """What a ranker remembers of queries.

    Parameters
    ----------
    ranker
        Name of the ranker.
    queries, documents, bytes
        Number of queries, of their documents, and of bytes that they take.
    clicks_per_view
        Clicks per view of all queries: a document with more clicks per view rises, one with fewer falls.
    remembered
        The query that was asked for; or those with the largest effect.
    """

    ranker: str
    queries: int
    documents: int
    bytes: int
    clicks_per_view: float
    remembered: list[RememberedQuery]


class VersionInfo(msgspec.Struct, frozen=True):
    """A model version: its time, the number of the event that published it, and its label, "" if it has none."""

    version: int
    time: float
    number: int
    current: bool
    label: str = ""


class Model(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model: score = sum over all columns of weight × column; higher is better.

    The ``representation`` makes one or several columns of each feature; with several, the weights of a feature are a list.
    ``knots`` are the points on the axis of each feature between which columns rise; None if the representation has not learned any.
    ``deviations`` are the standard deviations of the weights, for an algorithm with a belief about them.
    """

    name: str
    model_version: int
    weights: dict[str, float | list[float]]
    representation: str | dict[str, Any]
    knots: dict[str, list[float]] | None = None
    deviations: dict[str, float | list[float]] | None = None


class FeatureCurve(msgspec.Struct, frozen=True):
    """What one feature adds to the score, as a function of its ``domain``, such as its value.

    Parameters
    ----------
    name
        Name of the feature.
    domain
        "value": the number in the request; "scaled value": the number after fixed scalings; "query range": its place among the
        documents of a request, from 0 for the least to 1 for the largest; "query rank": its rank there, from 0 to 1.
    values, heights
        Points of the curve.
    shape
        "line": the infinite straight line through two points; "ramps": straight between points, constant outside; "steps": each
        height holds after its value, the first also before it.
    importance
        Influence on rankings: the standard deviation of the heights over the documents that were seen; if none are remembered,
        the difference between the highest and the lowest point.
    edges, shares
        Distribution of the seen documents: edges of bins over the axis, and the share of documents in each; the outermost bins
        include everything beyond them. Empty if none are remembered.
    deviation
        Standard deviation of the rise of the curve, from its first point to its last, for an algorithm with a belief about its
        weights. The weights of the columns count as independent.
    uncertainty
        Importance of the standard deviations of the weights: the features with the largest one are explored, because their effect
        on rankings is not known.
    """

    name: str
    domain: Literal["value", "scaled value", "query range", "query rank"]
    values: list[float]
    heights: list[float]
    shape: Literal["line", "ramps", "steps"]
    importance: float
    edges: list[float] = []
    shares: list[float] = []
    deviation: float | None = None
    uncertainty: float | None = None


class ModelCurves(msgspec.Struct, frozen=True):
    """A model as one curve for each feature, the most important first; the score of a document is the sum of the heights."""

    name: str
    model_version: int
    curves: list[FeatureCurve]


class StepDocument(msgspec.Struct, frozen=True, gc=False):
    """A document at a ``position``, from 1: whether it was ``clicked``, and whether it was regarded as ``examined``.

    ``examined`` is None if the algorithm does not use it.
    """

    id: str
    position: int
    clicked: bool
    examined: bool | None


class LastStep(msgspec.Struct, frozen=True, kw_only=True):
    """The last impression that a ranker has learned from, and what it has learned.

    Parameters
    ----------
    name
        Name of the ranker.
    impression_id
        Id of the impression.
    made_by_version, model_version
        Version that made the list, and version that is served now.
    step
        Number of impressions that were learned from, including this one.
    documents
        Documents in the order in which they were shown.
    direction, followed
        Direction of the clicks by feature, and the direction after the projection, which is the same if the algorithm has none.
        All zero if the clicks prefer nothing. Here and in the weights, a feature with a curve has the sum of its columns: the
        rise of the curve from its lowest value to its highest.
    direction_length, followed_length, angle
        Their lengths, and the angle between them in degrees, over all columns; None if one of them is zero. The cosine of the angle
        is the share of the length that a projection keeps, before scaling.
    weights_before, weights_after
        Weights by feature.
    """

    name: str
    impression_id: str
    made_by_version: int
    model_version: int
    step: int
    documents: list[StepDocument]
    direction: dict[str, float]
    followed: dict[str, float]
    direction_length: float
    followed_length: float
    angle: float | None
    weights_before: dict[str, float]
    weights_after: dict[str, float]


class GuardAlarm(msgspec.Struct, frozen=True):
    """An alarm: its time, its evidence, and its consequence.

    Parameters
    ----------
    time
        Time in seconds since 1970.
    model_version
        Version that was served.
    statistic
        Statistic of the detector, at least its threshold.
    wins, losses
        Wins and losses of the learned ranker since the guard began, the previous alarm, or a resume.
    did
        Consequence: "baseline", "rollback" or "tell".
    to_version
        Version of a rollback.
    reason
        Explanation in one sentence.
    lately
        Share of wins among about the last hundred decisive lists.
    happened, consequence
        What users preferred, and what the service did: the two parts of the reason that need no statistics.
    """

    time: float
    model_version: int
    statistic: float
    wins: int
    losses: int
    did: OnAlarm
    to_version: int | None
    reason: str
    lately: float = 0.5
    happened: str = ""
    consequence: str = ""


class GuardRung(msgspec.Struct, frozen=True):
    """The rung of a ranker: its ``number``, from 1, of all ``rungs``.

    On it the learned ranker decides a ``share`` of the lists that are not guard lists. ``win_rate`` and its confidence band, from
    ``low`` to ``high``, are of the decisive lists on this rung; the ranker is promoted when ``low`` is above ``needed``.
    """

    number: int
    rungs: int
    share: float
    wins: int
    losses: int
    win_rate: float
    low: float
    high: float
    needed: float


class GuardInfo(msgspec.Struct, frozen=True):
    """The evidence of a guard, which compares a ranker with the client's own order.

    Parameters
    ----------
    name, model_version
        Name of the ranker, and version that is served.
    state
        "watching"; "alarm" if an alarm was raised and the ranker was not resumed since.
    summary
        Summary in one or two sentences.
    lists, ties, no_click, repeated, ignored
        Numbers of counted guard lists since the guard began: all; ties; without a click; no votes because their user had voted that
        day; no votes because they had no user and the guard ignores these.
    decisive, wins, losses
        Numbers of decisive lists since the guard began, the last alarm, or a resume: all, and those that the learned ranker has won
        and lost.
    win_rate, low, high, level
        Share of decisive lists that were won; with probability at least 1 − level, the mean probability of winning is between low
        and high, at all times.
    e_value, proved
        Evidence of gain, which is proved at 1 / level and above.
    statistic, threshold
        Statistic of the harm detector, and its threshold; an alarm is raised when the first reaches the second.
    rung
        Rung of the ranker.
    learned_share
        Share of the lists that are not guard lists that the learned ranker decides now.
    alarms, promotions
        Numbers of alarms and promotions since the guard began.
    last_alarm
        The last alarm, None if there was none.
    guard
        Settings of the guard.
    lately
        Share of wins among about the last hundred decisive lists.
    anonymous
        Share of about the last hundred decisive lists whose feedback had no ``user_id``.
    warnings
        Messages for the operator.
    phase
        "imitating": all lists have the client's order, and the ranker learns to imitate it; "climbing": it is on a rung below the
        last; "full": it is on the last rung; "alarm": as in ``state``.
    imitated, imitate
        Number of lists that were imitated, lists of a log included, and number after which the guard begins; 0 if it need not wait.
    waiting
        Number of closed guard lists that are not counted yet, because a guard list that was shown earlier is still open.
    """

    name: str
    model_version: int
    state: Literal["watching", "alarm"]
    summary: str
    lists: int
    decisive: int
    wins: int
    losses: int
    ties: int
    no_click: int
    repeated: int
    win_rate: float
    low: float
    high: float
    level: float
    e_value: float
    proved: bool
    statistic: float
    threshold: float
    rung: GuardRung
    learned_share: float
    alarms: int
    promotions: int
    last_alarm: GuardAlarm | None
    guard: GuardSpec
    lately: float = 0.5
    ignored: int = 0
    anonymous: float = 0.0
    warnings: tuple[str, ...] = ()
    phase: Literal["imitating", "climbing", "full", "alarm"] = "climbing"
    imitated: int = 0
    imitate: int = 0
    waiting: int = 0


class Overview(msgspec.Struct, frozen=True):
    """A ranker among all: its state, its guard, None if it has none, and its recent mean number of lists per minute."""

    ranker: RankerInfo
    guard: GuardInfo | None
    lists_per_minute: float


class HistoryMark(msgspec.Struct, frozen=True):
    """A control event in the history of a ranker, such as for a vertical line in a chart.

    ``event`` is freeze, resume, rollback, label, pin, unpin, change, alarm, promote or start (a process began to learn); ``text``
    describes it in a few words, ``model_version`` is the version that was served before.
    """

    time: float
    event: str
    text: str
    model_version: int


class HistoryGuard(msgspec.Struct, frozen=True):
    """The guard over time, one number per step.

    ``wins`` and ``losses`` are those of the step; ``win_rate``, ``low`` and ``high`` are of all decisive lists since the guard
    began, the last alarm or a resume, ``statistic`` is the detector's and ``learned_share`` the share of lists that the learned
    ranker decides, all at the end of the step; None if there was no guard.
    """

    wins: list[int]
    losses: list[int]
    win_rate: list[float | None]
    low: list[float | None]
    high: list[float | None]
    statistic: list[float | None]
    learned_share: list[float | None]


class History(msgspec.Struct, frozen=True):
    """The history of a ranker: one number per step in every list, oldest first; steps without events are left out.

    Parameters
    ----------
    name
        Name of the ranker.
    step, seconds
        "minute", "hour" or "day", and its length.
    time
        Beginning of each step, in seconds since 1970.
    lists
        Numbers of lists by kind: explored, greedy, shadow, guard, baseline (in the client's own order).
    closed, clicked
        Numbers of closed lists with feedback, and of those with a click, by kind; "old" are lists that were made before a change of
        the features or of the guard.
    reciprocal_rank
        Mean of 1 / position of the first click (0 without a click) over the closed lists, by kind; None if there were none.
    no_feedback, learned, failed
        Numbers of closed lists without feedback, that were learned from, and that could not be learned from.
    events
        Numbers of events in the log.
    trouble
        Numbers of feature values that were "missing" or, by fixed scalings, "out_of_range"; other invalid values are refused.
    model_version
        Version at the end of each step.
    weights
        Weights of the first 50 features by name, at the end of each step; for a feature with a curve, the rise of the curve from
        its lowest value to its highest.
    positions_shown, positions_clicked
        Numbers of closed lists with feedback that had a document at each position, from 1, and of clicks there, over all steps.
    guard
        The guard; None if there was none in this time.
    marks
        Control events.
    deviations
        Standard deviations of the ``weights``, in the same form; empty if the algorithm has no belief about its weights.
    """

    name: str
    step: Literal["minute", "hour", "day"]
    seconds: int
    time: list[float]
    lists: dict[str, list[int]]
    closed: dict[str, list[int]]
    clicked: dict[str, list[int]]
    reciprocal_rank: dict[str, list[float | None]]
    no_feedback: list[int]
    learned: list[int]
    failed: list[int]
    events: list[int]
    trouble: dict[str, list[int]]
    model_version: list[int]
    weights: dict[str, list[float | None]]
    positions_shown: list[int]
    positions_clicked: list[int]
    guard: HistoryGuard | None
    marks: list[HistoryMark]
    deviations: dict[str, list[float | None]] = {}


class Live(msgspec.Struct, frozen=True):
    """The present state of a ranker: one message of a live stream.

    Parameters
    ----------
    time
        Time of the message, in seconds since 1970.
    ranker, guard
        The ranker and its guard, None if it has none.
    lag
        Number of events that the leader has not applied yet.
    events_per_second
        Rate of new events of all rankers in the log since the previous message; None in the first message.
    history
        The newest steps: the current one and the one before.
    alarms
        Names of other rankers whose guards have raised an alarm.
    """

    time: float
    ranker: RankerInfo
    guard: GuardInfo | None
    lag: int
    events_per_second: float | None
    history: History
    alarms: tuple[str, ...] = ()


class ImpressionInfo(msgspec.Struct, frozen=True):
    """An impression whose features are still in the store, so that any version can rank it again.

    Parameters
    ----------
    impression_id, time, model_version
        Id, time, and version that made it.
    kind
        Kind of the list, as in `RankAnswer`.
    documents
        Number of candidates.
    shown, clicked
        Ids of the shown documents, in order, and of those that were clicked.
    """

    impression_id: str
    time: float
    model_version: int
    kind: str
    documents: int
    shown: list[str]
    clicked: list[str]


class VersionRanking(msgspec.Struct, frozen=True):
    """The ranking of an impression by one version, with scores, and what the memory of its query had added to them then."""

    model_version: int
    ranking: list[RankedDocument]


class Comparison(msgspec.Struct, frozen=True):
    """An impression, ranked by two versions, without exploration.

    The store has no ids of documents that were not shown: they are named by their place in the request, from 1, such as "#12".
    """

    impression: ImpressionInfo
    one: VersionRanking
    other: VersionRanking


class ExperimentSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The specification of an experiment, which compares two to ten systems on live clicks.

    Parameters
    ----------
    name
        Name of the experiment: at most 100 letters, digits and ``_ . -``, the first a letter or digit. No ranker has this name.
    systems
        Names of the systems whose lists the client sends.
    rankers
        Names of rankers of this service that are compared with them: each ranks the documents of a request by its current weights,
        without exploring.
    multileaver
        Method that merges the lists and assigns the clicks: a recipe. Only ``"PairDraft()"``, which compares two of the systems in
        each list, and for two systems ``"TeamDraft()"`` have fair wins.
    length
        Maximum number of documents in a merged list.
    level
        Probability that the verdict ever says that a system is better than an equal one.
    close_after
        Seconds after which an open list is closed: later clicks do not count, and later lists have to wait no longer.
    actions
        Weights of actions on a document by name, as in the specification of a ranker.
    """

    name: str
    systems: tuple[str, ...]
    rankers: tuple[str, ...] = ()
    multileaver: str = "PairDraft()"
    length: int = 10
    level: float = 0.05
    close_after: float = 1800.0
    actions: dict[str, float] = msgspec.field(default_factory=lambda: {CLICK: 1.0})


class ExperimentPair(msgspec.Struct, frozen=True):
    """The comparison of two systems of an experiment.

    Parameters
    ----------
    one, other
        Names of the systems.
    wins, losses, ties
        Numbers of counted lists that the first has won and lost, and of the rest, which also has the lists of other pairs.
    win_rate, low, high
        Share of the lists with a winner that the first has won; with probability at least 1 − level, no band of any pair is wrong
        at any time.
    p_value
        P-value of the difference, corrected for the number of pairs; it is valid at any time.
    better
        Name of the system that is proved to be better, None if none is.
    """

    one: str
    other: str
    wins: int
    losses: int
    ties: int
    win_rate: float
    low: float
    high: float
    p_value: float
    better: str | None


class ExperimentInfo(ExperimentSpec, frozen=True, kw_only=True):
    """The state of an experiment, in addition to its specification; it may be read at any time.

    Parameters
    ----------
    verdict
        Which systems are proved to be better than which, in one sentence.
    created, stopped
        Times of the creation and of the stop, in seconds since 1970; None if it was not stopped.
    lists
        Number of lists that were shown.
    open, waiting
        Numbers of lists that are open, and of closed ones that wait for an open list that was shown before: lists count in the
        order in which they were shown.
    counted, clicked, decisive
        Numbers of lists with feedback that count, of those with a click, and of those with a winner among any pair of systems.
    no_feedback, repeated, failed, late
        Numbers of closed lists without feedback; with a winner, whose user had one on the same day; and that could not be counted,
        which is never normal; and of feedback events that arrived after their list was closed.
    anonymous
        Number of decisive lists without a ``user_id``.
    pairs
        The comparison of each pair of systems.
    warnings
        Messages for the operator.
    """

    verdict: str
    created: float
    stopped: float | None
    lists: int
    open: int
    waiting: int
    counted: int
    clicked: int
    decisive: int
    no_feedback: int
    repeated: int
    failed: int
    late: int
    anonymous: int
    pairs: tuple[ExperimentPair, ...]
    warnings: tuple[str, ...] = ()


class ExperimentBand(msgspec.Struct, frozen=True):
    """The win rate of one system against another over time, with its band: one number per point; None before the first winner."""

    one: str
    other: str
    win_rate: list[float | None]
    low: list[float | None]
    high: list[float | None]


class ExperimentHistory(msgspec.Struct, frozen=True):
    """The win rates of an experiment over time: after these numbers of counted ``lists``, the last of them shown at ``time``.

    There are about 33 points for each power of ten of the number of lists.
    """

    name: str
    lists: list[int]
    time: list[float]
    pairs: list[ExperimentBand]


class ShowRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The lists of the systems for one query.

    Parameters
    ----------
    lists
        Ids of documents by system, best first; an empty list if a system has returned nothing.
    impression_id
        Id of this impression; a request with the same id returns the same list. Generated by default.
    user_id
        Any text that identifies the user, of which only a hash is stored: a user has one vote a day. It may be in the feedback
        instead.
    documents
        The documents with their features, as in a request for a ranking, for the rankers of the experiment.
    query, query_key
        As in a request for a ranking, for rankers that remember queries.
    context
        As in a request for a ranking, for rankers with a context.
    """

    lists: dict[str, list[str]] = {}
    impression_id: str | None = None
    user_id: str | None = None
    documents: list[Document] | DocumentTable | None = None
    query: str | None = None
    query_key: str | None = None
    context: dict[str, float] = {}


class ShowAnswer(msgspec.Struct, frozen=True):
    """The ids of the documents to show, best first, and the impression id for their feedback."""

    impression_id: str
    documents: list[str]


class Health(msgspec.Struct, frozen=True, omit_defaults=True):
    """The health of the service; ``learning`` is whether a process learns from what is stored, which may begin later."""

    status: str
    learning: bool | None = None


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """An error (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str = ""
