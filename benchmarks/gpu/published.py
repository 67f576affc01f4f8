"""What others have published of GPUs: their figures, on their machines. No comparison is made."""

from __future__ import annotations

NOTE = """Other people's numbers, from their papers and logs, on other machines and mostly other
graphs. They stand here for orientation: nothing here was run, and nothing is compared."""

ROWS = (
    (
        "gMatch (PVLDB 2026), RTX 4090",
        "soc-LiveJournal1 / com-Orkut, embeddings",
        "triangles 28 / 101 ms, K4 131 / 195 ms, P1 1.45 / 5.13 s, P4 347 / 507 s, "
        "P3 497 / 705 s, P5 237 / 245 s, P6 140 / 70 s, K5 9.8 / 1.5 s",
    ),
    (
        "T-DFS (2024), A100 as its settings imply",
        "Friendster, P1 to P7",
        "3.19, 3.68, 4.37, 59.8, 17.0, 5.73, 5.11 s; it enumerates one match at a time",
    ),
    (
        "Wu et al. (2014), GTX Titan, 64-bit ids",
        "random graphs, 10K to 100M edges",
        "triangles 120 M edges/s at the peak of GPU-Optimized, which is 1.72x LFTJ-GPU and 5.23x "
        "LFTJ-CPU there; four-cliques 5.35x and 2.36x",
    ),
    (
        "GPULog's logs, A100 inferred",
        "transitive closure",
        "fe_body 4.5 s, SF.cedge 2.7 s, usroads 39 to 85 s, fe_ocean out of memory",
    ),
)  # fmt: skip


def table() -> list[str]:
    lines = ["| whose, on what | work | figures |", "| --- | --- | --- |"]
    return lines + [f"| {' | '.join(row)} |" for row in ROWS]
