"""Pictures of the dashboard over invented patients: ``-m benchmarks.dashboard_pictures``.

Each is one file: light, dark, and on a phone. Needs chromium and Pillow.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import sync_playwright

from tests.faces.dashboard.world import build

OUT = Path(__file__).parents[1] / "docs" / "images"
TALLEST = 900
LOOKS = (("light", 900), ("dark", 900), ("light", 380))
LARGEST_FILE = 100_000
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking"]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CONFRERE_WITNESS"] = f"{folder}/witness"
        build(Path(folder) / "hospital")
        command = [sys.executable, "-m", "confrere.cli", "dashboard", "hospital"]
        with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as dashboard:
            try:
                assert dashboard.stderr is not None
                address = re.search(r"http://\S+", dashboard.stderr.readline())
                assert address is not None
                _draw(address[0])
            finally:
                dashboard.terminate()


def _draw(address: str) -> None:
    base = address.split("/enter")[0]
    with sync_playwright() as playwright:
        program = shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS)
        page = browser.new_page()
        page.goto(address)
        state = page.context.storage_state()
        screens = _screens(page, base)
        shots: dict[str, list[Image.Image]] = {name: [] for name in screens}
        for scheme, width in LOOKS:
            size: Any = {"width": width, "height": 600}
            look: Any = {"color_scheme": scheme, "storage_state": state, "viewport": size}
            window = browser.new_context(**look).new_page()
            for name, place in screens.items():
                window.goto(base + place)
                shot = window.screenshot(full_page=True)
                shots[name].append(Image.open(io.BytesIO(shot)).convert("RGB"))
        browser.close()
    for name, found in shots.items():
        _save(OUT / f"dashboard-{name}.png", found)


def _screens(page: Any, base: str) -> dict[str, str]:
    def first(address: str, selector: str) -> str:
        page.goto(base + address)
        return str(page.locator(selector).first.get_attribute("href"))

    ledger = first("/", "table a")
    return {
        "budgets": "/",
        "ledger": ledger,
        "row": first(ledger, "td a[href*='/row/']"),
        "studies": "/studies",
        "study": first("/studies", "td a"),
        "runs": "/runs",
        "run": first("/runs", "td a"),
        "releases": "/releases",
    }


def _save(path: Path, found: list[Image.Image]) -> None:
    cut = [image.crop((0, 0, image.width, min(image.height, TALLEST))) for image in found]
    wide = sum(image.width for image in cut) + 24 * (len(cut) - 1)
    sheet = Image.new("RGB", (wide, max(image.height for image in cut)), "#9aa3ad")
    left = 0
    for image in cut:
        sheet.paste(image, (left, 0))
        left += image.width + 24
    for colours in (64, 32, 16):
        sheet.quantize(colours, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
            path, optimize=True
        )
        if path.stat().st_size < LARGEST_FILE:
            return
    raise SystemExit(f"{path.name} is larger than {LARGEST_FILE} bytes.")


if __name__ == "__main__":
    main()
