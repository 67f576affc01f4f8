"""Names of files, for who types one."""

from __future__ import annotations

import os
from collections.abc import Callable

from gdatalog.widths import visible

Files = Callable[[str, str], list[str]]

MOST = 200  # names; a folder with more is to be narrowed by its first letters


def files_at(typed: str, ending: str = "") -> list[str]:
    """The files and folders whose path begins so; folders end with a slash. Names that hold
    control characters are left out: nobody could see what is typed.

    `ending`: files that end so, where there are any.
    """
    folder, slash, begun = typed.rpartition("/")
    try:
        with os.scandir(os.path.expanduser(folder + slash) or ".") as entries:
            found = sorted(
                (entry.name, entry.is_dir())
                for entry in entries
                if entry.name.startswith(begun)
                and entry.name == visible(entry.name)
                and (begun.startswith(".") or not entry.name.startswith("."))
            )
    except OSError:
        return []
    wanted = [(name, is_folder) for name, is_folder in found if is_folder or name.endswith(ending)]
    kept = wanted if any(not is_folder for _, is_folder in wanted) else found
    return [f"{folder}{slash}{name}{'/' * is_folder}" for name, is_folder in kept[:MOST]]
