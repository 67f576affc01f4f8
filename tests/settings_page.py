"""The page docs/settings.md, made of gdatalog/settings.py.

python -m tests.settings_page --write
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from gdatalog.settings import Thresholds
from gdatalog.user_settings import AT_START, Setting, all_settings

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "gdatalog" / "settings.py"
PAGE = ROOT / "docs" / "settings.md"

HEAD = """\
# Settings

Settings choose how queries run, and limit what they take. Answers stay the same. You rarely need
one: `auto` leaves a choice to gdatalog, which compares the expected costs. `always` applies an
optimisation wherever it is possible, `never` disables it.

| where | how |
| --- | --- |
| Python | `gd.connect(settings={"magic_sets": "never"})`; later `db.set(magic_sets="never")` |
| command line | `gdatalog --set magic_sets=never rules.dl` |
| prompt | `.set magic_sets never`; `.set` lists all settings |
| notebook | `%datalog_set magic_sets never`; `%datalog_set` lists all settings |

```python
import gdatalog as gd

db = gd.connect(device="cpu", settings={"magic_sets": "never", "timeout": 30})
db.set(strategy="levelwise")
print(db.settings.strategy, db.settings.magic_sets, db.settings.timeout)
```

```text
levelwise never 30.0
```

`memory_limit`, `temp_limit`, `timeout` and `threads` are also arguments of `connect`, and
`--memory-limit`, `--temp-limit`, `--timeout` and `-j` on the command line, as `--strategy` is. The
first two are fixed when a database is opened. `N` stands for a number, `SIZE` for a size as in
`8GiB`. In Python, `auto` and `off` are `None` where a setting is a number.

"""

THRESHOLDS = """
## Thresholds

By these numbers gdatalog decides under `auto`, always from sizes and expected costs: the same
program over the same data runs the same way twice. They are no settings, and may change with each
version; [`explain`](python.md#explain-and-profile) shows what is decided.
"""


def thresholds() -> Iterator[tuple[str, str, str]]:
    """Name, default and meaning of each threshold; a heading has no name."""
    text = SOURCE.read_text(encoding="utf-8")
    body = text.partition("class Thresholds:")[2].partition('    """\n\n')[2].partition("\n\n\n")[0]
    for block in body.split("\n\n"):
        head, *lines = block.splitlines()
        heading, before = re.sub(r"^ *# ", "", head), ""
        yield "", "", heading
        for line in lines:
            found = re.fullmatch(r" +(\w+): \w+ = .*?(?:  # (.*))?", line)
            if found is None:
                before += f" {line.strip(' #')}"
                continue
            name, meaning = found.groups()
            yield name, _number(getattr(Thresholds(), name)), meaning or before.strip()
            before = ""


def _number(value: float) -> str:
    return f"{int(value) if value == int(value) else value:,}"


def _row(each: Setting) -> str:
    values = each.forms.replace("|", "` `")
    fixed = " Fixed when a database is opened." if each.name in AT_START else ""
    return f"| `{each.name}` | `{values}` | `{each.words[0]}` | {each.meaning}{fixed} |"


def page() -> str:
    """The whole page."""
    lines = [HEAD + "| setting | values | default | meaning |", "| --- | --- | --- | --- |"]
    lines += [_row(each) for each in all_settings().values()]
    lines.append(THRESHOLDS)
    for name, default, meaning in thresholds():
        if name:
            lines.append(f"| `{name}` | `{default}` | {meaning} |")
        else:
            lines += ["", meaning, "", "| threshold | default | meaning |", "| --- | --- | --- |"]
    return "\n".join(lines).replace("\n\n\n", "\n\n") + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page(), encoding="utf-8")
    else:
        sys.exit(PAGE.read_text(encoding="utf-8") != page())
