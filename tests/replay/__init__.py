"""A process replay: all plans, printed loops and CUDA sources that many programs make, compared
between two commits.

    python -m tests.replay                      against the commit that this work began from
    python -m tests.replay --against v1.2       against a commit, or a folder that --store made
    python -m tests.replay --store FOLDER       keeps the texts in a folder
    python -m tests.replay --only docs drawn    of programs whose names hold one of these words
    python -m tests.replay --ignore '^import'   leaves out lines that hold a pattern

    programs   the programs: of queries/, docs/, tests, and seeded drawn ones
    running    runs them; nothing is compiled
    recorder   notes what is planned and printed
    stored     texts in a file, and what differs between two of them
"""
