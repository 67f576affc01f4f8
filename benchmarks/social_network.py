"""Counts over a social network: chains, stars, triangles and two hops over many relations.

Modelled on the nine queries of LSQB, the labelled subgraph query benchmark, over generated data.
All are counts of all bindings, so that joining is all there is to do. Beside them are optional
matches, which DuckDB finds by left joins: their count, their groups, and their rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchmarks.columns import Array, Columns, Relation, distinct
from benchmarks.graphs import short
from benchmarks.peers import DuckDB
from benchmarks.records import Ask, Case, at_most, faster
from benchmarks.setting import Setting
from benchmarks.sides import Gdatalog

EDGES = {1_000_000: 1.0, 10_000_000: 5.0}  # and within how many seconds all counts are wanted
TIMES = 5.0
OURS = "ours"


@dataclass(frozen=True, slots=True)
class Work:
    what: str
    rule: str
    sql: str
    listed: bool = False  # the answer are rows


CHAIN = Work(
    "a chain over ten relations",
    """n(count()) <- country(y), city(c, y), person(p, c), member(f, p), forum(f, _),
        post(m, _, f), comment(r, _, m), tagged(r, t), tag(t, k), class(k).""",
    """select count(*) from country join city using (country) join person using (city)
        join member using (person) join forum using (forum) join post using (forum)
        join comment on parent = post join tagged on message = comment join tag using (tag)
        join class using (class)""",
)
REPLIES = Work(
    "replies among friends",
    "n(count()) <- knows(p, q), comment(_, p, m), post(m, q, _).",
    """select count(*) from knows join comment on comment.creator = a
        join post on post.post = parent and post.creator = b""",
)
TRIANGLES = Work(
    "triangles of friends within a country",
    """n(count()) <- city(a, y), city(b, y), city(c, y), person(p, a), person(q, b), person(r, c),
        knows(p, q), knows(q, r), knows(p, r).""",
    """select count(*) from city x join city y on x.country = y.country
        join city z on x.country = z.country join person p on p.city = x.city
        join person q on q.city = y.city join person r on r.city = z.city
        join knows k on k.a = p.person and k.b = q.person
        join knows l on l.a = q.person and l.b = r.person
        join knows m on m.a = p.person and m.b = r.person""",
)
STARS = Work(
    "stars on a message",
    "n(count()) <- message(m, _), tagged(m, _), likes(_, m), comment(_, _, m).",
    """select count(*) from message join tagged on tagged.message = message.message
        join likes on likes.message = message.message join comment on parent = message.message""",
)
TAGS = Work(
    "tags of message and reply that differ",
    "n(count()) <- tagged(m, t), comment(r, _, m), tagged(r, u), t != u.",
    """select count(*) from tagged x join comment on parent = x.message
        join tagged y on y.message = comment where x.tag != y.tag""",
)
HOPS = Work(
    "interests two hops away",
    "n(count()) <- knows(p, q), knows(q, r), interest(r, _), p != r.",
    """select count(*) from knows x join knows y on x.b = y.a join interest on person = y.b
        where x.a != y.b""",
)
OUTER = Work(
    "stars on a message, without likes and replies too",
    """n(c) <- c = count : { message(m, _), tagged(m, _t), (likes(_p, m) ; !likes(_, m)),
        (comment(_r, _, m) ; !comment(_, _, m)) }.""",
    """select count(*) from message join tagged on tagged.message = message.message
        left join likes on likes.message = message.message
        left join comment on parent = message.message""",
)
NEW_TAGS = Work(
    "tags of message and reply that differ, new there",
    "n(count()) <- tagged(m, t), comment(r, _, m), tagged(r, u), t != u, !tagged(r, t).",
    """select count(*) from tagged x join comment on parent = x.message
        join tagged y on y.message = comment
        left join tagged z on z.message = comment and z.tag = x.tag
        where x.tag != y.tag and z.tag is null""",
)
STRANGERS = Work(
    "interests two hops away, of no friends",
    "n(count()) <- knows(p, q), knows(q, r), interest(r, _), p != r, !knows(p, r).",
    """select count(*) from knows x join knows y on x.b = y.a join interest on person = y.b
        left join knows z on z.a = x.a and z.b = y.b where x.a != y.b and z.a is null""",
)
_FANS = """message left join (select * from likes join person using (person)) fans
        using (message)"""
OPTIONAL = (
    Work(
        "messages and who likes them, if anybody",
        "n(count()) <- message(m, _), optional { likes(p, m), person(p, _) }.",
        f"select count(*) from {_FANS}",
    ),
    Work(
        "messages and how many like them, or none",
        "n(m, count()) <- message(m, _), optional { likes(p, m), person(p, _) }.",
        f"select message, count(*) from {_FANS} group by message",
        listed=True,
    ),
    Work(
        "rows of messages and who likes them, if anybody",
        "r(m, p, c) <- message(m, _), optional { likes(p, m), person(p, c) }.",
        f"select message, person, city from {_FANS}",
        listed=True,
    ),
)
WORKS = (CHAIN, REPLIES, TRIANGLES, STARS, TAGS, HOPS, OUTER, NEW_TAGS, STRANGERS)


def network(edges: int, seed: int = 3, sparse: bool = False) -> Columns:
    """A network of about so many rows. `sparse`: identifiers spread over 60 bits.

    Persons, tags, forums and messages are picked by power laws: the k-th of n with a weight of
    about 1 / k to some exponent below 1. Friends live in the same country more often than not.
    """
    random = np.random.default_rng(seed)
    persons, forums = max(30, edges // 800), max(20, edges // 100)
    posts, comments = edges * 9 // 100, edges * 16 // 100
    tags, classes, cities, countries = max(20, edges // 800), 20, 300, 30
    messages = posts + comments

    def picked(size: int, many: int, skew: float) -> Array:
        """So many of the numbers below `size`, the popular ones scattered."""
        drawn = (size * random.random(many) ** (1 / (1 - skew))).astype(np.int64)
        order: Array = np.random.default_rng(size).permutation(size)
        return order[drawn]

    def pairs(first: Array, second: Array) -> tuple[Array, Array]:
        """Each pair once, in random order."""
        both = random.permutation(distinct(first * (1 << 32) + second))
        return both >> 32, both & ((1 << 32) - 1)

    home = picked(cities, persons, 0.5)
    country = random.integers(0, countries, cities)
    near = np.argsort(country[home], kind="stable")  # neighbours here are compatriots
    place = np.argsort(near)
    many = edges * 6 // 100
    a = picked(persons, many, 0.75)
    away = (random.random(many) ** 3 * persons / 2).astype(np.int64) + 1
    b = near[(place[a] + away) % persons]
    a, b = pairs(np.minimum(a, b)[a != b], np.maximum(a, b)[a != b])
    parent = np.concatenate(
        [
            picked(posts, comments * 2 // 3, 0.75),
            posts
            + (
                np.arange(comments * 2 // 3, comments)
                * random.random(comments - comments * 2 // 3) ** 0.5
            ).astype(np.int64),
        ]
    )
    creator = picked(persons, messages, 0.75)
    topic = random.integers(0, tags, messages)
    reply = posts + np.arange(comments)
    tagged = np.concatenate(
        [random.permutation(messages), random.permutation(messages)[: edges // 9]]
    )
    subject = picked(tags, len(tagged), 0.75)
    asked = np.zeros(messages, dtype=np.int64)
    asked[reply] = parent
    same = random.random(len(tagged)) < 0.3  # a reply has tags of what it replies to
    subject[same] = topic[asked[tagged[same]]]
    subject[random.random(len(subject)) < 0.2] = topic[0]
    tables: dict[str, dict[str, Array]] = {
        "class": {"class": np.arange(classes)},
        "country": {"country": np.arange(countries)},
        "city": {"city": np.arange(cities), "country": country},
        "person": {"person": np.arange(persons), "city": home},
        "knows": {"a": np.concatenate([a, b]), "b": np.concatenate([b, a])},
        "tag": {"tag": np.arange(tags), "class": random.integers(0, classes, tags)},
        "forum": {"forum": np.arange(forums), "moderator": picked(persons, forums, 0.3)},
        "post": {
            "post": np.arange(posts),
            "creator": creator[:posts],
            "forum": picked(forums, posts, 0.75),
        },
        "comment": {"comment": reply, "creator": creator[posts:], "parent": parent},
        "message": {"message": np.arange(messages), "creator": creator},
    }
    columns = pairs(picked(forums, edges // 8, 0.75), picked(persons, edges // 8, 0.75))
    tables["member"] = dict(zip(("forum", "person"), columns, strict=True))
    columns = pairs(tagged, subject)
    tables["tagged"] = dict(zip(("message", "tag"), columns, strict=True))
    columns = pairs(picked(persons, edges // 5, 0.5), picked(messages, edges // 5, 0.75))
    tables["likes"] = dict(zip(("person", "message"), columns, strict=True))
    columns = pairs(random.integers(0, persons, edges // 40), picked(tags, edges // 40, 0.75))
    tables["interest"] = dict(zip(("person", "tag"), columns, strict=True))
    return {name: _shuffled(table, random, sparse) for name, table in tables.items()}


def _shuffled(table: dict[str, Array], random: np.random.Generator, sparse: bool) -> Relation:
    order = random.permutation(len(next(iter(table.values()))))
    if not sparse:
        return {name: values[order].astype(np.int32) for name, values in table.items()}
    spread, bits = np.uint64(0x9E3779B97F4A7C15), np.uint64((1 << 60) - 1)
    return {
        name: ((values[order].astype(np.uint64) * spread) & bits).astype(np.int64)
        for name, values in table.items()
    }


def run(setting: Setting) -> Iterator[Case]:
    limits = {rows // 1000 if setting.small else rows: limit for rows, limit in EDGES.items()}
    yield from _optional(setting, min(limits))
    for edges, limit in limits.items():
        yield from _cases(setting, edges, limit, False)
    yield from _cases(setting, min(limits), None, True)


def _cases(setting: Setting, edges: int, limit: float | None, sparse: bool) -> Iterator[Case]:
    """All counts on one network, and what they take together."""
    size = f"{short(edges)} rows{', sparse identifiers' if sparse else ''}"
    wanted = [work for work in WORKS if setting.wants(f"{work.what}, {size}", 20 * edges / 1e6)]
    if not wanted:
        return
    data = setting.stored(f"social network, {size}", lambda: network(edges, sparse=sparse))
    total = 0.0
    cases = []
    for work in wanted:
        sides = [Gdatalog(work.rule, strategy="auto"), DuckDB(work.sql)]
        case = setting.race("social network", f"{work.what}, {size}", data, sides)
        case.asks.append(faster(case, OURS, ["DuckDB"], TIMES))
        cases.append(case)
        figure = case.figure(OURS)
        total += float("inf") if figure is None or figure.warm is None else figure.warm
    if limit is not None and len(wanted) == len(WORKS):
        cases[-1].asks.append(_together(size, total, limit))
    yield from cases


def _optional(setting: Setting, edges: int) -> Iterator[Case]:
    size = f"{short(edges)} rows"
    for work in OPTIONAL:
        if setting.wants(f"{work.what}, {size}", 10):
            data = setting.stored(f"social network, {size}", lambda: network(edges))
            ours = Gdatalog(work.rule, strategy="auto", arrow=work.listed)
            sides = [ours, DuckDB(work.sql, arrow=work.listed)]
            case = setting.race("social network", f"{work.what}, {size}", data, sides)
            case.asks.append(faster(case, OURS, ["DuckDB"], 1.0))
            yield case


def _together(size: str, total: float, limit: float) -> Ask:
    return at_most(f"all nine counts, {size}", "a clock", total, limit)
