"""The HTTP API as values: what JSON and MessagePack are decoded into and encoded from, in the service and in the client alike."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

__all__ = [
    "CLICK",
    "BackfillCounts",
    "Change",
    "Comparison",
    "Document",
    "DocumentTable",
    "FeatureCurve",
    "FeedbackCounts",
    "FeedbackEvent",
    "GuardAlarm",
    "GuardInfo",
    "GuardRung",
    "GuardSpec",
    "Health",
    "History",
    "HistoryGuard",
    "HistoryMark",
    "ImpressionInfo",
    "Invalid",
    "LastStep",
    "Live",
    "LoggedImpression",
    "Mode",
    "Model",
    "ModelCurves",
    "Problem",
    "RankAnswer",
    "RankRequest",
    "RankedDocument",
    "RankerInfo",
    "RankerSpec",
    "Start",
    "StepDocument",
    "VersionInfo",
    "VersionLabel",
    "VersionNumber",
    "VersionRanking",
]

#: What a user did, where nothing else is said.
CLICK = "click"

Mode = Literal["learn", "shadow", "frozen"]
OnAlarm = Literal["baseline", "rollback", "tell"]
Anonymous = Literal["count", "ignore"]
Precision = Literal["float32", "float64"]


class Start(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where the first weights come from: exactly one of the three.

    Parameters
    ----------
    weights
        By feature name; those that are left out start at 0.
    model
        A model that was exported with format=json.
    ranker
        ``"from"`` in JSON: another ranker of this service.
    version
        Of that ranker; its current one where it is not given.
    """

    weights: dict[str, float] | None = None
    model: dict[str, Any] | None = None
    ranker: str | None = msgspec.field(name="from", default=None)
    version: int | None = None


class GuardSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a ranker is guarded: compared with its baseline, the order in which the client sends the documents, as long as it runs.

    Parameters
    ----------
    share
        Of all lists, those that compare: a team draft of the client's order and the best list of the served version.
    false_alarm_every
        Decisive lists between two false alarms, on average, or more.
    margin
        How far below one half the chance to win a decisive list may be without an alarm.
    on_alarm
        "baseline" serves the client's order and learns nothing until somebody resumes; "rollback" goes back to the newest
        version that had proved gain, and does as "baseline" where there is none; "tell" only says so.
    promote
        Shares of the other lists that the learned ranker decides, one rung after the other; the rest is in the client's order.
    webhook
        The http or https address that receives alarms and promotions; only with an admin key for all rankers.
    anonymous
        What becomes of decisive lists whose feedback has no ``user_id``: "count" counts all of them, "ignore" none. Without a user,
        there is no limit of one vote a day.
    """

    share: float = 0.1
    false_alarm_every: float = 1_000_000.0
    margin: float = 0.0
    on_alarm: OnAlarm = "baseline"
    promote: tuple[float, ...] = (0.1, 0.5, 1.0)
    webhook: str | None = None
    anonymous: Anonymous = "count"


class _Definition(msgspec.Struct, frozen=True):
    """What defines a ranker; `RankerSpec` explains it."""

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


class RankerSpec(_Definition, frozen=True, forbid_unknown_fields=True):
    """What a ranker is made of.

    Parameters
    ----------
    name
        Letters, digits and ``_ . -``, the first a letter or digit, at most 100.
    algorithm
        A recipe, such as ``"mgd-dsp"``; it may begin with a representation, ``"query-scaled >> curves >> mgd-dsp"``.
    features
        Names, in the order of dense arrays; at least one, each of 1 to 200 characters that can be printed.
    representation
        What the algorithm sees of the features: the text of a recipe, such as ``"query-scaled >> curves"``, or fixed scalings
        by name, ``{"kind": "fixed", "features": {"price": {"min_max": {"minimum": 0, "maximum": 900}}}}``. Where it is
        given neither here nor in the recipe, it is that of the model or ranker to start from, or else ``"curves"``.
    length
        How many documents an impression shows where a request does not say.
    exploration
        The share of impressions that explore; the others are in the order of the current weights, and nothing is learned
        from them.
    mode
        "learn"; "shadow" serves the documents in the order in which the client sent them, or in that of a version which was
        pinned, and learns from what users do with that; "frozen" serves the current weights and learns nothing until it is
        resumed.
    seed
        Of all that is drawn; lists depend on a secret salt of the ranker, too, so that nobody can predict them.
    close_after
        Seconds after which an impression that nobody closed is closed.
    start
        The weights before the first impression: ``{"weights": {"bm25": 1.0}}``, ``{"model": …}`` (as exported with
        format=json) or ``{"from": "shop", "version": 40}``; zero weights where it is not given.
    precision
        How features are kept until they are learned from; with "float32" they are rounded before they are ranked, too.
    retired
        Names of features that requests may still have, and that are ignored.
    guard
        How the ranker is compared with the client's own order, and what happens when it does worse; ``{}`` for the defaults,
        None for no guard.
    actions
        What an action on a document weighs, by name: ``{"click": 1, "add_to_cart": 3, "purchase": 10}``. Of several on one
        document the heaviest counts. Actions without a weight are taken, and teach nothing. A name has 1 to 100 characters that can
        be printed.
    """


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What to change of a ranker; what is not given stays.

    Parameters
    ----------
    exploration, close_after, length, mode
        As of `RankerSpec`.
    add_features
        Names of new features, behind the others; they start by adding nothing.
    retire_features
        Names of features to do without from now on; requests may still have them by name, and they are ignored.
    guard
        Another guard, or None for no guard any more. What was counted starts anew where a promise changes: false_alarm_every,
        margin or promote.
    actions
        Other weights of actions, for all feedback that comes from now on.
    """

    exploration: float | None = None
    close_after: float | None = None
    length: int | None = None
    mode: Mode | None = None
    add_features: tuple[str, ...] = ()
    retire_features: tuple[str, ...] = ()
    guard: GuardSpec | msgspec.UnsetType | None = msgspec.UNSET
    actions: dict[str, float] | None = None


class RankerInfo(_Definition, frozen=True, kw_only=True):
    """A ranker as it is now.

    Beside its spec: how many ``impressions`` were made; how many closed ones were learned from (``learned``), had no
    feedback at all (``no_feedback``; they may never have been seen, and change nothing), were closed without learning,
    because they did not explore or learning was frozen (``skipped``), could not be learned from, which is never normal
    (``failed``), and are still ``open``; how many lists of other systems it was taught with (``backfilled``), and how many of
    them came too late for that (``unused``); the version that a shadow serves (``pinned``), None where it serves the
    client's own order. Counts are at most two seconds old, in every process. ``warnings`` are what the operator should know.
    """

    impressions: int
    learned: int
    model_version: int
    no_feedback: int = 0
    skipped: int = 0
    failed: int = 0
    open: int = 0
    updates: int = 0
    created: float = 0.0
    frozen: bool = False
    pinned: int | None = None
    backfilled: int = 0
    unused: int = 0
    warnings: tuple[str, ...] = ()


class Document(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """A candidate: its id, and its features in order or by name."""

    id: str
    features: list[float] | dict[str, float]


class DocumentTable(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """Candidates in compact form: their ids, and all their features, one document after the other.

    The features are little-endian floating point numbers: in JSON as base64 text, in MessagePack as bytes.
    """

    ids: list[str]
    features: bytes
    type: Precision = "float32"


class RankRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Documents to be ordered.

    Parameters
    ----------
    documents
        With ids that differ; or all of them as one table.
    impression_id
        Any text that names this impression; the same again gives the same order again. Made up where it is not given.
    length
        How many documents to show; the ranker's own where it is not given.
    explain
        Whether to say how the scores come about.
    """

    documents: list[Document] | DocumentTable
    impression_id: str | None = None
    length: int | None = None
    explain: bool = False


class RankedDocument(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A document of a ranking; ``position`` counts from 1. With ``explain``: its score, and what each feature adds to that."""

    id: str
    position: int
    score: float | None = None
    explain: dict[str, float] | None = None


class RankAnswer(msgspec.Struct, frozen=True):
    """A ranking to show, best first, and the impression id that its clicks must carry."""

    impression_id: str
    model_version: int
    ranking: list[RankedDocument]

    @property
    def ids(self) -> list[str]:
        """The ids of the documents, best first."""
        return [each.id for each in self.ranking]


class FeedbackEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What a user did with an impression.

    Parameters
    ----------
    impression_id
        Of which impression.
    clicks
        Ids of documents that were clicked, or what else ``action`` says; each counts once per impression.
    examined
        How many positions were looked at, only where that was observed.
    close
        Whether nothing more will come: the ranker may learn from the impression now.
    event_id
        The idempotency key: the event counts once however often it is sent. Made from the content where it is not given.
    time
        By the client's clock; kept, and used for nothing.
    user_id
        Who it was: any text that stands for one user. Only a hash is kept. A user has one vote a day in the guard. An empty text
        stands for nobody, as if it were not given.
    action
        What the user did with the documents: "click", "purchase" …; the ranker's ``actions`` say what it weighs.
    """

    impression_id: str
    clicks: list[str] = []
    examined: int | None = None
    close: bool = False
    event_id: str | None = None
    time: float | None = None
    user_id: str | None = None
    action: str = CLICK


class Invalid(msgspec.Struct, frozen=True):
    """Why an event, the ``index``-th of its request from 0, was not taken; or which of its clicks were not."""

    index: int
    event_id: str | None
    reason: str


class LoggedImpression(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A list that another system ranked and showed, and what the user did with it.

    Parameters
    ----------
    impression_id
        Of this list: it teaches once, however often it is sent.
    documents
        Those that were shown, in the order in which they were shown; behind them there may be some that were not.
    clicks
        Ids of documents that were clicked.
    actions
        Ids of documents by other things that were done with them: ``{"purchase": ["d3"]}``.
    examined
        How many positions were looked at, only where that was observed.
    shown
        How many of the documents were shown; all where it is not given.
    """

    impression_id: str
    documents: list[Document] | DocumentTable
    clicks: list[str] = []
    actions: dict[str, list[str]] = {}
    examined: int | None = None
    shown: int | None = None


class BackfillCounts(msgspec.Struct, frozen=True):
    """What became of the lists of a request: they are new (``accepted``), were sent before (``duplicate``) or are refused."""

    accepted: int = 0
    duplicate: int = 0
    invalid: list[Invalid] = []


class FeedbackCounts(msgspec.Struct, frozen=True):
    """What became of the events of a request: each is counted once, in one of the first four or in ``invalid``.

    An event of which some clicks are for documents that were not shown is accepted with the others, and also named in
    ``invalid``; with none left (and nothing else said) it is invalid only.
    """

    accepted: int = 0
    duplicate: int = 0
    unknown: int = 0
    expired: int = 0
    invalid: list[Invalid] = []


class VersionNumber(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model version: to go back to, or to serve."""

    version: int


class VersionLabel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A model version to keep under a label, of 1 to 100 characters that can be printed; "" removes the label."""

    version: int
    label: str


class VersionInfo(msgspec.Struct, frozen=True):
    """A model version that is still there: made at a time, of all events up to a number; "" where it has no label."""

    version: int
    time: float
    number: int
    current: bool
    label: str = ""


class Model(msgspec.Struct, frozen=True, omit_defaults=True):
    """A model: score = sum over all columns of weight × column; higher is better.

    The ``representation`` makes one column of each feature, or several: then the weights of a feature are a list. ``knots`` are
    the points on the axis of each feature between which columns rise; none where the representation learns none, or has not
    yet.
    """

    name: str
    model_version: int
    weights: dict[str, float | list[float]]
    representation: str | dict[str, Any]
    knots: dict[str, list[float]] | None = None


class FeatureCurve(msgspec.Struct, frozen=True):
    """What one feature adds to the score, as a function of its ``domain``, such as its value.

    Parameters
    ----------
    name
        Of the feature.
    domain
        "value": the number in the request; "scaled value": that after fixed scalings; "query range": its place among the
        documents of a request, from 0 for the least to 1 for the largest; "query rank": its rank there, from 0 to 1.
    values, heights
        Points of the curve.
    shape
        "line": the straight line through two points, without end; "ramps": straight between points, level outside; "steps":
        each height holds from behind its value on, the first before all.
    importance
        How much it moves rankings: the standard deviation of its heights over the documents that were seen; where none are
        remembered, the difference between its highest and its lowest point.
    edges, shares
        Where the seen documents are: edges of bins over the axis, and the share of documents in each; the outermost bins have
        also what is beyond them. Empty where none are remembered.
    """

    name: str
    domain: Literal["value", "scaled value", "query range", "query rank"]
    values: list[float]
    heights: list[float]
    shape: Literal["line", "ramps", "steps"]
    importance: float
    edges: list[float] = []
    shares: list[float] = []


class ModelCurves(msgspec.Struct, frozen=True):
    """A model as one curve for each feature, the most important first; a document's score is the sum of its features' heights."""

    name: str
    model_version: int
    curves: list[FeatureCurve]


class StepDocument(msgspec.Struct, frozen=True, gc=False):
    """A document that was shown at a ``position``, from 1: whether it was ``clicked``, and whether it was taken as ``examined``.

    ``examined`` is None where the algorithm does not ask that.
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
        Of the ranker.
    impression_id
        Of the impression.
    made_by_version, model_version
        The version that the list was made with, and the one that is served now.
    step
        The number of impressions that were learned from, with this one.
    documents
        As they were shown.
    direction, followed
        Where the clicks point, by feature; and what was followed of it, which is the same where the algorithm has no projection.
        All zero where they say nothing. Here and in the weights, a feature with a curve has the sum of its columns: how far the
        curve rises from its lowest value to its highest.
    direction_length, followed_length, angle
        Their lengths, and the angle between them in degrees, over all columns; no angle where one of them is zero. The
        cosine of the angle is the share of the length that a projection keeps, before anything is scaled.
    weights_before, weights_after
        By feature.
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
    """An alarm: when it was raised, on what evidence, and what was done.

    Parameters
    ----------
    time
        In seconds since 1970.
    model_version
        That was served.
    statistic
        Of the detector, at least its threshold.
    wins, losses
        Of the learned ranker, since the guard began, the alarm before, or somebody's resume.
    did
        "baseline", "rollback" or "tell".
    to_version
        Where it was rolled back to.
    reason
        A sentence.
    lately
        The share of decisive lists that were won of late, about the last hundred.
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


class GuardRung(msgspec.Struct, frozen=True):
    """Where on its ladder a ranker stands: the ``number``-th rung of so many (``rungs``), from 1.

    There the learned ranker decides a ``share`` of the lists that are not guard lists. ``win_rate`` and its band, from ``low`` to
    ``high``, are of the decisive lists on this rung; one rung up when ``low`` is above ``needed``.
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
    """How a guarded ranker does against the client's own order.

    Parameters
    ----------
    name, model_version
        Of the ranker, and the version that is served.
    state
        "watching"; "alarm" where one was raised and nobody has resumed.
    summary
        All of it in a sentence or two.
    lists, ties, no_click, repeated, ignored
        Closed guard lists since the guard began; those that were ties, had no click, or were left out because their user had
        voted that day, or because they had no user and the guard ignores these.
    decisive, wins, losses
        Of the learned ranker, since the guard began, the last alarm, or somebody's resume.
    win_rate, low, high, level
        The share of decisive lists that were won; with probability at least 1 − level, its mean chance is between low and high,
        at all times at once.
    e_value, proved
        Evidence of gain; proved at this level at 1 / level and above.
    statistic, threshold
        Of the detector; an alarm is raised when the first reaches the second.
    rung
        Where on its ladder it stands.
    learned_share
        Of the lists that are not guard lists, those that the learned ranker decides now.
    alarms, promotions
        So many since the guard began.
    last_alarm
        None where there was none.
    guard
        How the ranker is guarded.
    lately
        The share of decisive lists that were won of late, about the last hundred.
    anonymous
        The share of recent decisive lists, about the last hundred, whose feedback had no ``user_id``.
    warnings
        What an operator should know.
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


class HistoryMark(msgspec.Struct, frozen=True):
    """Something that happened to a ranker at a time: what to draw as a vertical line.

    ``event`` is freeze, resume, rollback, label, pin, unpin, change, alarm, promote or start (a process began to learn); ``text``
    says it in a few words, ``model_version`` is what was served before.
    """

    time: float
    event: str
    text: str
    model_version: int


class HistoryGuard(msgspec.Struct, frozen=True):
    """The guard over time, one number per step.

    ``wins`` and ``losses`` are those of the step; ``win_rate``, ``low`` and ``high`` are of all decisive lists since the guard
    began, the last alarm or a resume, ``statistic`` is the detector's and ``learned_share`` the share of lists that the learned
    ranker decides, all at the end of the step; None where there was no guard.
    """

    wins: list[int]
    losses: list[int]
    win_rate: list[float | None]
    low: list[float | None]
    high: list[float | None]
    statistic: list[float | None]
    learned_share: list[float | None]


class History(msgspec.Struct, frozen=True):
    """What a ranker did over time: one number per step in every list, oldest first; steps in which nothing happened are left out.

    Parameters
    ----------
    name
        Of the ranker.
    step, seconds
        "minute", "hour" or "day", and how long that is.
    time
        When each step began, in seconds since 1970.
    lists
        Lists made, by kind: explored, greedy, shadow, guard, baseline (in the client's own order).
    closed, clicked
        Closed lists that had feedback, and those of them with a click, by kind; "old" are those that were made by what was watched
        or had other features before a change.
    reciprocal_rank
        Mean of 1 / position of the first click (0 without a click) over the closed lists, by kind; None where there were none.
    no_feedback, learned, failed
        Closed lists without feedback, those that were learned from, and those that could not be.
    events
        All events of the log.
    trouble
        Feature values that were "missing" or, by fixed scalings, "out_of_range"; lists with others are refused.
    model_version
        At the end of each step.
    weights
        By feature, at the end of each step: its weight, or where it has a curve, how much the curve rises from its lowest value to
        its highest; of the first 50 features.
    positions_shown, positions_clicked
        How many closed lists with feedback had a document at each position, from 1, and how many clicks it got, over all steps.
    guard
        Against the baseline; None where there never was a guard in this time.
    marks
        What happened.
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


class Live(msgspec.Struct, frozen=True):
    """What a ranker does just now: one message of a live stream.

    Parameters
    ----------
    time
        Of the message, in seconds since 1970.
    ranker, guard
        As they are now; no guard where the ranker has none.
    lag
        Events of the log that the learner has not applied yet.
    events_per_second
        That came into the log since the message before, of all rankers of the store; None in the first message.
    history
        Its newest steps: the one that goes on now and the one before.
    """

    time: float
    ranker: RankerInfo
    guard: GuardInfo | None
    lag: int
    events_per_second: float | None
    history: History


class ImpressionInfo(msgspec.Struct, frozen=True):
    """A list that was shown, whose features are still in the store, so that any version can rank it again.

    Parameters
    ----------
    impression_id, time, model_version
        Its id, when it was made, and from which version.
    kind
        explored, greedy, shadow, guard or baseline (the client's own order).
    documents
        How many there were to choose from.
    shown, clicked
        Ids of documents: those that were shown, in order, and those of them that were clicked.
    """

    impression_id: str
    time: float
    model_version: int
    kind: str
    documents: int
    shown: list[str]
    clicked: list[str]


class VersionRanking(msgspec.Struct, frozen=True):
    """How one version ranks the documents of an impression, with their scores."""

    model_version: int
    ranking: list[RankedDocument]


class Comparison(msgspec.Struct, frozen=True):
    """One impression, ranked by two versions, without exploring.

    Of documents that were not shown the store has no ids: they are called by their place in the request, from 1, such as "#12".
    """

    impression: ImpressionInfo
    one: VersionRanking
    other: VersionRanking


class Health(msgspec.Struct, frozen=True):
    """Whether all is well."""

    status: str


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong, as RFC 9457 has it."""

    type: str
    title: str
    status: int
    detail: str
    request_id: str = ""
