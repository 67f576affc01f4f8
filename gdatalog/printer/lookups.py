"""Prints the look-ups of keys in lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gdatalog.plan.join_plan import Expr, Participant
from gdatalog.plan.nest import TrieNode
from gdatalog.printer.nest import Point


def seek(
    here: Point,
    term: Expr,
    key: str,
    participants: Sequence[Participant],
    among: Mapping[TrieNode, str] | None = None,
) -> None:
    """Looks a key up in participants' lists; the row ends if a list lacks the key.

    `among`: nodes in which the key's position is known already.
    """
    nest, text = here.nest, here.text
    for node in map(nest.paths.node, participants):
        if nest.above_tally(node):
            continue
        child = node.child(term)
        if child not in here.positions:
            if among and node in among:
                here.positions[child] = among[node]
            elif nest.direct and nest.leads_on(node):
                _lead_on(here, node, child, key)
            else:
                at = text.name("p")
                text.line(f"{at} = {_find(here, node, key)}")
                with text.block(f"if {at} < 0"):
                    text.line("continue")
                here.positions[child] = at
                if nest.direct and nest.weighs(node):
                    nest.by_value.add(at)
        if node.trie.weighted and node.last:
            if nest.tallied(node):
                weights = nest.table(node).counts
            elif here.positions[child] in nest.by_value:
                weights = nest.arguments.of_trie(nest.number[node.trie], "weighed")
            else:
                weights = nest.arguments.of_trie(nest.number[node.trie], "weights")
            weight = text.name("w")
            text.line(f"{weight} = np.int64({weights}[{here.positions[child]}])")
            here.weights.append(weight)


def _lead_on(here: Point, node: TrieNode, child: TrieNode, key: str) -> None:
    """Looks up the range of the children of a root's value."""
    level, arguments, text = here.nest.level(node), here.nest.arguments, here.text
    low, high = text.name("l"), text.name("h")
    at = arguments.scalar("low", level), arguments.of_trie(level.trie, "starts")
    text.line(f"{low}, {high} = {here.nest.call('children', *at, key)}")
    with text.block(f"if {low} == {high}"):
        text.line("continue")
    here.ranges[child] = low, high
    here.positions[child] = ""  # only its range is ever read


def _find(here: Point, node: TrieNode, key: str) -> str:
    """The source of the position of a key in a list."""
    nest, level, arguments = here.nest, here.nest.level(node), here.nest.arguments
    if nest.tallied(node):
        table = nest.table(node)
        return nest.call("find_tally", table.counts, table.low, key)
    dense = nest.tries[node.trie].levels[node.depth].dense
    if nest.hashed(node) and not dense:
        keys = arguments.of_hash(level, "keys")
        if node.last:
            return nest.call("has_child", keys, here.place_of(node), key)
        ids = arguments.of_hash(level, "ids")
        return nest.call("find_child", keys, ids, here.place_of(node), key)
    if node.terms and not nest.hashed(node):
        return nest.call("find", nest.values(node), *here.range_of(node), key)
    low = arguments.scalar("low", level)
    if nest.direct and nest.weighs(node):
        return nest.call("find_tally", arguments.of_trie(level.trie, "weighed"), low, key)
    index = arguments.of_trie(level.trie, "index")
    if dense:
        return nest.call("find_indexed", low, index, key)
    return nest.call("find_root", nest.values(node), low, index, key)
