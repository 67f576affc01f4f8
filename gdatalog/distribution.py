"""The installed package: its version, the command that installs it, and packages that harm it.

On PyPI, `gdatalog` is another project, whose files are in a folder `gdatalog` too. Ours is called
`gdatalog-engine`, and is not published yet: it is installed from a clone.
"""

from __future__ import annotations

from collections.abc import Sequence

VERSION = "0.2.0"
NAME = "gdatalog-engine"
FORMER = "gdatalog"  # the name of another project, and formerly of ours


def install(*extras: str, without: Sequence[str] = ()) -> str:
    """How to install gdatalog with these extras, after other packages are uninstalled.

    >>> install("cluster")
    "in a clone of gdatalog: python -m pip install '.[cluster]'"
    >>> install(without=["gdatalog"])
    'in a clone of gdatalog: python -m pip uninstall -y gdatalog && python -m pip install .'
    """
    clone = f"'.[{','.join(extras)}]'" if extras else "."
    before = f"python -m pip uninstall -y {' '.join(without)} && " if without else ""
    return f"in a clone of gdatalog: {before}python -m pip install {clone}"


def beside() -> str | None:
    """The version of the other package `gdatalog`, if its files are installed too.

    An installation for development under our former name has no files there.
    """
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        found = distribution(FORMER)
    except PackageNotFoundError:
        return None
    mixed = any(path.parts[0] == "gdatalog" for path in found.files or ())
    return found.version if mixed else None
