"""What the papers measured that this project grew out of: `python -m benchmarks.papers [paper...]`.

One module a paper, at the scale that fits: real graphs of the folder that GDATALOG_DATA names, made
up ones where there is none. Every count is checked by a second way. Times of the papers are of
other machines, and stand in none of the tables; ratios and words do. A paper takes at most five
minutes; the results of others stay in the report.

    python -m benchmarks.papers --small                  everything on tiny graphs, by brute force
    python -m benchmarks.papers cuts t_dfs               two of them
    python -m benchmarks.papers --device cuda            on a GPU
"""
