"""The benchmark on a GPU: `make bench-gpu`, or `python -m benchmarks.gpu [suite...]`.

Real graphs are read from the folder that GDATALOG_DATA names (`graphs/packed/NAME.npz.xz`); where
there is none, graphs of the same size are made up, and the report says so.

On a machine with a GPU and no network, from a checkout, with the wheels in a folder beside it:

    python3 -m venv --system-site-packages .venv &&
    .venv/bin/pip install --no-index --find-links WHEELS --editable . cupy-cuda12x matplotlib pytest
    .venv/bin/python -m pytest -q -m gpu &&
    GDATALOG_DATA=DATA .venv/bin/python -m benchmarks.gpu --minutes 6 --out OUT

(with cupy-cuda13x for a driver of CUDA 13; `pip download --dest WHEELS '.[cuda12]' ...` elsewhere
fills the folder.) The report is OUT/README.md, the figures are OUT/results.json, and what a short
table has is printed last. matplotlib may be missing: then there are no pictures.
"""
