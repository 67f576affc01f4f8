"""Who may import whom, for the test of imports and the table in ARCHITECTURE.md.

python -m tests.layers --write
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from textwrap import wrap

from tests.code_size import Module, package

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "ARCHITECTURE.md"
BEGIN, END = "<!-- python -m tests.layers --write -->\n", "<!-- end of the layers -->\n"

# What each layer may import: a folder of the package, or a module at its top.
BASE = {
    "records", "errors", "decimals", "values", "terminal_text", "progress", "account", "overhead",
    "threads", "importing", "cancellation", "distribution", "own_files", "settings",
}  # fmt: skip
LANGUAGE = BASE | {"parser", "plan", "planner"}
ENGINE = LANGUAGE | {
    "claims", "storage", "codegen", "cpu_ops", "printer", "limits", "chunks", "calls", "gpu_ops",
    "executors", "engine",
}  # fmt: skip
STATE = ENGINE | {"options", "user_settings", "loading"}
FACE = ENGINE | {
    "options", "user_settings", "present", "conversions", "result", "report", "loading", "session",
    "workspace", "relations", "asking", "prepared", "deleting", "saving", "starting", "turns",
    "data_calls", "database",
    "patterns", "pattern_queries", "cluster",
}  # fmt: skip
MAY_IMPORT = {
    "records": set(),
    "settings": {"records"},
    "distribution": set(),
    "own_files": set(),
    "threads": set(),
    "importing": {"threads"},
    "decimals": set(),
    "values": {"records", "decimals"},
    "terminal_text": set(),
    "errors": {"records", "values", "terminal_text"},
    "progress": {"records", "values", "terminal_text"},
    "overhead": {"records"},
    "account": {"records", "errors", "progress", "values"},
    "cancellation": {
        "records",
        "account",
        "errors",
        "importing",
        "overhead",
        "progress",
        "terminal_text",
        "threads",
        "values",
    },
    "claims": {"cancellation"},
    "turns": {"cancellation", "claims", "errors", "progress", "threads"},
    "options": {"errors", "settings"},
    "user_settings": {"records", "errors", "progress", "settings", "options"},
    "parser": BASE,
    "plan": BASE,
    "storage": BASE | {"codegen"},
    "codegen": {"records", "overhead", "distribution", "own_files"},
    "limits": BASE | {"plan"},
    "chunks": BASE | {"plan"},
    "calls": BASE | {"plan", "storage", "limits"},
    "cpu_ops": BASE | {"plan", "storage", "codegen"},
    "planner": BASE | {"parser", "plan", "storage", "codegen", "cpu_ops"},
    "printer": BASE | {"plan", "storage", "codegen", "cpu_ops"},
    "gpu_ops": BASE | {"plan", "storage", "codegen", "cpu_ops", "printer", "limits", "calls"},
    "executors": BASE | {"plan", "storage", "codegen", "limits", "calls"},
    "engine": ENGINE,
    "cluster": ENGINE | {"cluster"},
    "present": BASE | {"storage"},
    "conversions": BASE | {"storage"},
    "result": BASE | {"storage", "present", "conversions"},
    "report": ENGINE | {"options"},
    "loading": ENGINE,
    "session": STATE,
    "workspace": STATE | {"session", "deleting"},
    "saving": STATE,
    "relations": STATE | {"present", "result", "session"},
    "asking": STATE | {"present", "result", "session", "relations"},
    "prepared": STATE | {"present", "result", "session", "workspace", "relations", "asking"},
    "deleting": STATE | {"session"},
    "data_calls": STATE | {"result", "workspace", "relations", "prepared", "deleting", "saving"},
    "starting": STATE | {"cluster", "workspace"},
    "patterns": {"records", "errors", "cancellation", "patterns"},
    "pattern_queries": {"patterns"},
    "database": FACE,
    "opening": FACE,
    "shell": FACE | {"opening"},
    "notebook": FACE | {"opening", "shell"},
    "__init__": FACE | {"opening", "shell", "notebook"},
    "__main__": {"shell"},
}
# What a layer may import besides, for type checkers only.
FOR_TYPES: dict[str, set[str]] = {
    "limits": {"storage"},
    "calls": {"printer"},
    "executors": {"cpu_ops", "printer"},
    "patterns": {"progress", "result"},
    "pattern_queries": {"progress", "result"},
    "report": {"result"},
    "saving": {"session", "workspace"},
}
# Imports that point upwards, by module, each with its reason.
UPWARDS = {
    ("account", "storage.spill"): "for its type: an account hands out the spill that it is given",
}

# Each package's modules and subpackages, from the bottom up: each may import those before it.
# "__init__" is the package itself.
ORDER = {
    "cluster": "patience workers pool rows joins recursion dask_cluster __init__",
    "cluster/joins": """
        __init__ cells layout morsels shares buckets fragments share_search bucket_store
        collector cluster_run replicated in_place partitioned
    """,
    "cluster/pool": "broadcast_files broadcast calls task_stage __init__",
    "cluster/recursion": """
        __init__ routes key_ranges hash_partition owner_steps checkpoints hash_partitions
    """,
    "cluster/rows": """
        __init__ shuffle texts survey row_statistics graph_degrees row_keeper loading
        dask_frames parquet_files
    """,
    "cluster/workers": """
        __init__ own_device own_process stored_rows local worker_list connection
    """,
    "codegen": """
        __init__ function_names loop_language cache helpers function_trees types
        llvm_numbers llvm_values entry_point llvm_statements machine ir_modules object_files
        native_calls native
    """,
    "codegen/helpers": """
        elements atomics __init__ values lists list_merges marks tallies bits recoding
        bit_rows hash_tables key_sets group_sets grouped_values lattice numbered_groups
        text_sets lines
    """,
    "cpu_ops": """
        arrays loose_tries best_values linear_match texts functions intersection byte_marks
        groups ordered_groups compiled_statistics group_statistics packed_runs exact_totals
        expressions __init__
    """,
    "engine": """
        __init__ nvidia exact_counts derived row_codes metrics planned_rules plan_files
        rule_plans recent catalog facts compiler device devices context kept_runs index_memory
        host_tries paged_joins pages parallel semi_joins group_dedup depth choose group_rows
        remainders scans fixpoint scan_or_index stratum_tables rules prepared_rules draft encoding
        stratum_run variants replanning operators stratum_plan placing recursion_planner
        stratum_planner counting evaluator untrusted execution
    """,
    "engine/fixpoint": """
        __init__ lattice_rounds row_sets row_bitmap maintained nearby start_groups spans
        group_numbers expected_spaces runs row_hash_set hash_indexes delta
    """,
    "engine/operators": """
        __init__ base again copy ordered once semi_naive row_rounds bitmap_rounds wrapping
        fallback host placed when_compiled codes linear incremental lattice partitioned_run
        partitioned counted workers worklist
    """,
    "engine/rules": """
        __init__ operator hand_over counted_levels join joins rows index_lookup fallback
        in_cells signed_sum over_tables evaluate launched
    """,
    "engine/catalog": "__init__ fact_list folders sources parameters texts snapshot",
    "engine/compiler": "__init__ plans compiled demand constants compiler",
    "engine/evaluator": """
        __init__ upcoming kept_plans results news evaluator asked_parts demanded bound
    """,
    "engine/facts": "__init__ files outputs rows unions lists reading_ahead inputs",
    "executors": """
        __init__ ops frontier failures lftj partitioned fresh distinct_rows group_table gather
        sinks
        level_lists expansion generation reduction levelwise
    """,
    "gpu_ops": """
        __init__ cpp_types heads steady lanes teams cpp graph context driver_library
        graph_loops virtual_memory virtual_pages compile_errors copies arena cupy_kernel
        sources array_operators elementwise array_module cupy_driver probe diagnosis
        head_counts flat kernels transfers cpp_lines lane_loops spread_loops met_lists translate
        trie_building trie_cache control_words loops level_notes rows byte_marks kept_lists
        evaluate buffers scratch launch walk growing growing_rows round_launches
        round_memory rounds level_arguments intersection_sources level_sources fused_level
        intersection sums paged_tries level_graph device share copied_tries helper group
    """,
    "notebook": """
        cell answers variables options help completion progress_bar magics __init__
    """,
    "parser": """
        syntax tokens facts conversions heads words failure fact_statements format lists builder
        grammar directive_words sql_mistakes directive_mistakes mistakes invalid_words scanner
        stored reading includes completeness __init__
    """,
    "patterns": "shapes grown pattern families suites orbits drawn frequent queries __init__",
    "plan": """
        __init__ join_plan functions function_help conditions effects rest_of_join grouped_rows nest
        cells labels
        stored slices page_schedule placement schedule
    """,
    "planner": """
        compaction passes check statistics observed items comparisons atoms decimals normalise
        new_values domains order aggregate_items list_reuse candidates components conjunction build
        join rewrite program rule least_cut placement pipeline __init__
    """,
    "planner/check": """
        walk wording checked invalid answers bindings scopes __init__ motions catalog lists
        safety statements cycle_errors strata joined_nulls cautions heads inlining
        column_names optionals forms arity name_errors null_places names signatures
        conversions literals types lattice declarations schemas zones null_values nulls
        ordered_heads decimal_types program extending validity
    """,
    "planner/order": """
        __init__ loop_work scans edges pattern formula sampling cost search_space beam
        search order_cache canonical_order plan_inputs twins pattern_maker automorphisms
        degree_order symmetry
    """,
    "planner/rewrite": """
        __init__ counts_read folding columns_read linear_recursion parts quotients isomorphic
        orbits outer_loops adornments linear_closures passing recursion_cost suffix rounds_cost
        program_sizes
        dead_variables local_counts elimination rewriting algebra body_counts demanded_rules
        magic_sets
    """,
    "printer": """
        __init__ filled_tables layouts arguments expressions nest_state nest bitsets leaves
        distinct_groups lists distinct turns measure recoded_lists lookups recode reuse
        cached_intersections level_loop levels tallies branches module lattice worklist
        worklist_tile
    """,
    "report": """
        tree passes numbers folded round_table rules mermaid text shown indexes plan_nodes
        plan_tree hints costliest profile_tree __init__
    """,
    "shell": """
        __init__ messages progress_line doctor options output conversation program typed
        statements parameters registry commands editor repl arguments pattern_commands cli start
    """,
    "shell/commands": "database plans rules settings __init__",
    "shell/editor": """
        __init__ terminal known signatures statement_completion completion highlighting lexer
        toolkit prompt
    """,
    "storage": """
        __init__ imported_later kinds saved_kinds places load_options table text_functions
        device_columns column_arrays decimals columns export spill pipes symbols threads row_groups
        as_text cells plain_text delimited raw rows grouped_rows file_sets row_order
        key_space data_files column_matching headers dictionary keys sorting ordered row_ids
        missing networks frames row_ops on_device text_files selection duplicates
        spilled_groups line_blocks parquet_groups file_bytes large_files readers hashed_values trie
        trie_slices row_tests degrees laid_tries facts_files kept row_store temporary_files
        writers parquet_folder graph count_tables spilled_tries loop_tables remote
        trie_builder value_counts quantiles device_statistics statistics membership
        deferred_rows history coded parts relation summary key_columns saved_folder
    """,
}
LISTED = 4  # packages of so many have an order here


def parts_of(name: str, folder: str = "gdatalog") -> str:
    """The part of a package that a module belongs to: a module, a subpackage, or itself.

    >>> parts_of("gdatalog.engine.evaluator.evaluator", "gdatalog.engine"), parts_of("gdatalog")
    ('session', '__init__')
    """
    return name.removeprefix(folder).lstrip(".").partition(".")[0] or "__init__"


def packages(modules: Mapping[str, Module]) -> dict[str, set[str]]:
    """The parts of each package inside `gdatalog`, by its path."""
    found = {
        name: {parts_of(other, name) for other in modules if within(other, name)}
        for name, module in modules.items()
        if module.path.name == "__init__.py" and name != "gdatalog"
    }
    return {path_of(name): parts for name, parts in found.items()}


def path_of(folder: str) -> str:
    """The path of a package inside `gdatalog`."""
    return folder.removeprefix("gdatalog.").replace(".", "/")


def within(name: str, folder: str) -> bool:
    return name == folder or name.startswith(f"{folder}.")


def upwards(modules: Mapping[str, Module]) -> Iterator[tuple[str, str]]:
    """The imports that the layers do not allow, anywhere in a module, for type checkers too."""
    for name, module in modules.items():
        for other in module.imports(dict(modules)):
            if not allowed(name, other):
                yield name, other


@cache
def allowed(name: str, other: str) -> bool:
    """Whether a module may import another one, or call its functions."""
    pair = (name.removeprefix("gdatalog."), other.removeprefix("gdatalog."))
    if name == other or pair in UPWARDS:
        return True
    above, below = parts_of(name), parts_of(other)
    if above != below:
        return below in MAY_IMPORT[above] | FOR_TYPES.get(above, set())
    folder = "gdatalog"
    while parts_of(name, folder) == parts_of(other, folder):
        folder += f".{parts_of(name, folder)}"
    order = ORDER.get(path_of(folder), "").split()
    if not order:
        return True  # a small package: the test of cycles suffices
    return order.index(parts_of(other, folder)) < order.index(parts_of(name, folder))


def cycle() -> list[str]:
    """Layers that may import each other, directly or by way of others."""
    below = {layer: layer_imports(layer) - {layer} for layer in MAY_IMPORT}
    left = dict(below)
    while free := [layer for layer, others in left.items() if left.keys().isdisjoint(others)]:
        for layer in free:
            del left[layer]
    return list(left)


def layer_imports(layer: str) -> set[str]:
    return MAY_IMPORT[layer] | FOR_TYPES.get(layer, set())


def _told(layer: str) -> str:
    """What a layer imports: the uppermost layers, if all below them may be imported as well."""
    own = MAY_IMPORT[layer] - {layer}
    if not own:
        return "nothing of the package"
    top = [one for one in own if not any(one in _reached(other) for other in own - {one})]
    whole = set(top).union(*map(_reached, top))
    listed = sorted(top if whole == own else own, key=list(MAY_IMPORT).index)
    words = ", ".join(f"`{one}`" for one in listed)
    more = ", and below" if whole == own and whole != set(top) else ""
    types = ", ".join(f"`{one}`" for one in sorted(FOR_TYPES.get(layer, ())))
    return words + more + (f"; for types {types}" if types else "")


@cache
def _reached(layer: str) -> set[str]:
    own = MAY_IMPORT[layer] - {layer}
    return own.union(*map(_reached, own))


def table() -> str:
    """The part of ARCHITECTURE.md between its two marks."""
    rows: dict[str, list[str]] = {}
    for layer in MAY_IMPORT:
        rows.setdefault(_told(layer), []).append(f"`{layer}`")
    lines = ["", "| layer | imports |", "| --- | --- |"]
    lines += [f"| {', '.join(layers)} | {told} |" for told, layers in rows.items()]
    lines += ["", "Inside a package, a module imports what stands before it:", ""]
    for folder, order in ORDER.items():
        names = " ".join(order.split())
        lines += wrap(f"{folder}: {names}", 96, initial_indent="    ", subsequent_indent=" " * 8)
    if UPWARDS:
        lines += ["", "These point upwards, each for a reason:", ""]
        lines += [f"- `{a}` imports `{b}`, {why}" for (a, b), why in UPWARDS.items()]
    return "\n".join(lines) + "\n\n"


def page(text: str) -> str:
    """ARCHITECTURE.md with the table as it is now."""
    before, _, rest = text.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    text = PAGE.read_text(encoding="utf-8")
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(text), encoding="utf-8")
    else:
        print(*(f"{name} imports {other}" for name, other in upwards(package())), sep="\n")
        sys.exit(page(text) != text)
