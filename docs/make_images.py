"""Photographs of plans for the documentation: docs/images/plan.png and profile.png.

    python docs/make_images.py

needs Chromium. The data are made up; times differ from machine to machine.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import gdatalog as gd
from gdatalog.report import Shown

IMAGES = Path(__file__).with_name("images")
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTH = 1060

FRIENDS = """
    friends(x, y, z) <- follows(x, y), follows(y, z), follows(x, z), x < y < z, !blocks(x, z).
"""
REACHED = """
    far(y) <- start(y).
    far(y) <- far(x), knows(x, y), !blocks(x, y).
"""


def database() -> gd.Database:
    """People who follow each other; the first are followed by many."""
    draw = random.Random(7)
    db = gd.connect(device="cpu", threads=2)
    people = range(3000)
    pairs = [(draw.choice(people), min(draw.sample(people, 3))) for _ in range(24_000)]
    db.load("follows", pairs, columns=["who", "whom"])
    db.load("blocks", [(y, x) for x, y in pairs[::40]], columns=["who", "whom"])
    db.load("start", [(0,)], columns=["who"])
    near = [(x, x + draw.choice((-9, -2, 1, 3, 8, 30))) for x in people for _ in range(4)]
    db.load("knows", [pair for pair in near if pair[1] >= 0], columns=["who", "whom"])
    return db


def photograph(shown: Shown, name: str, height: int, dark: bool = False) -> None:
    """A plan's page as an image."""
    browser = next((found for each in CHROMIUM if (found := shutil.which(each))), None)
    if browser is None:
        sys.exit("this needs Chromium: apt install chromium")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "plan.html"
        shown.save(page)
        command = [
            browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic",
            "--no-first-run", "--disable-background-networking", "--disable-component-update",
            "--disable-sync", "--hide-scrollbars", f"--user-data-dir={folder}/profile",
            f"--window-size={WIDTH},{height}", f"--screenshot={IMAGES / name}",
            f"--blink-settings=preferredColorScheme={0 if dark else 1}", page.as_uri(),
        ]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True, timeout=60)


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    with database() as db:
        photograph(db.explain(FRIENDS), "plan.png", 620)
        photograph(db.profile(REACHED, strategy="levelwise"), "profile.png", 850)


if __name__ == "__main__":
    main()
