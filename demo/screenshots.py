"""Pictures of every page of a running site: `python -m demo.screenshots URL OUTDIR`.

Each page in a wide window, on a phone, in the dark and as it is printed; exits 1 when a page
reports an error to the browser's console, breaks the site's content policy, or is wider than its
window.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

# Playwright's synchronous API lives in an event loop; Django's guard has no part here.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")

from playwright.sync_api import Browser, ConsoleMessage, Error, Page, sync_playwright

WITHOUT = (
    # Two pages that the address bar keeps ready for each window, in a process that takes longer
    # than most pages of ours.
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup"),
    # What Playwright turns off: of two lists, Chromium heeds the last alone.
    *("AimEnabled", "AvoidCorsURLLoaderRestartOnRedirect", "AvoidUnnecessaryBeforeUnloadCheckSync"),
    *("DestroyProfileOnBrowserClose", "HttpsFirstBalancedModeAutoEnable", "HttpsUpgrades"),
    *("LensOverlay", "MediaRouter", "NetworkTimeServiceQuerying", "OptimizationHints"),
    *("PaintHolding", "PreconnectToSearch", "TcpPortRandomizationWin"),
    "ThirdPartyStoragePartitioning",
)
"""Features of Chromium."""
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    f"--disable-features={','.join(WITHOUT)}",
)
WIDE = {"width": 1440, "height": 900}
PHONE = {"width": 390, "height": 844}
PAPER = {"width": 718, "height": 1040}
"""A4 within its margins."""
FIXED = {
    "board": "/",
    "board-mmlu": "/?style=mmlu",
    "board-from-chance": "/?score=chance&rows=compact",
    "board-nothing": "/?q=no-such-model",
    "board-day-before": "/?at=2020-01-01",
    "styles": "/styles",
    "compare": "/compare",
    "queue": "/queue",
    "pool": "/pool",
    "submit": "/submit",
    "submit-problem": "/submit?model=not+a+model",
    "suites": "/suites",
    "backends": "/backends",
    "charts": "/charts",
    "charts-time": "/charts?against=time",
    "charts-tokens": "/charts?against=tokens",
    "charts-seconds": "/charts?against=seconds",
    "charts-agreement": "/charts-agreement",
    "charts-questions": "/charts-questions",
    "charts-spread": "/charts-spread",
    "corrections": "/corrections",
    "recalls": "/corrections?kind=recall",
    "method": "/method",
    "about": "/about",
    "changelog": "/changelog",
    "login": "/accounts/login",
    "new-account": "/accounts/new",
    "forgotten-password": "/accounts/password",
    "not-found": "/models/nobody/no-such-model",
}
MODEL, RUN = r"/models/[^?]+", r"/runs/[0-9a-f-]+"
# Page to look on, link to look for, name of the page behind it.
FOLLOWED = (
    ("board", MODEL, "model"),
    ("board", RUN, "run"),
    ("run", RUN + r"\?.*doc=.+", "run-question"),
    ("model", r"/submissions/[0-9a-f-]+", "submission"),
    ("queue", RUN, "run-from-queue"),
    ("suites", r"/suites/[^/]+", "suite"),
    ("suite", r"/tasks/.+", "task"),
    ("task", r"/tasks/.+/keys", "keys"),
    ("keys", r"/tasks/.+/keys/question\?.+", "key"),
    ("corrections", r"/corrections/reports/\d+", "report"),
    ("recalls", r"/corrections/recalls/\d+", "recall"),
    ("suite", r"/suites/[^/]+@[^/]+", "suite-other-version"),
)


@dataclass
class Tour:
    """Where to go; `complaints` collects what the browser had to say."""

    url: str
    folder: Path
    complaints: list[str] = field(default_factory=list)

    def take(self, browser: Browser) -> None:
        pages = self._addresses(browser)
        for look, options in {
            "wide": {"viewport": WIDE, "color_scheme": "light"},
            "dark": {"viewport": WIDE, "color_scheme": "dark"},
            "phone": {"viewport": PHONE, "color_scheme": "light", "device_scale_factor": 2},
            "paper": {"viewport": PAPER, "color_scheme": "light"},
        }.items():
            context = browser.new_context(**options)  # type: ignore[arg-type]
            page = context.new_page()
            page.emulate_media(media="print" if look == "paper" else "screen")
            for name, address in pages.items():
                self._shoot(page, f"{name}-{look}", address)
            context.close()

    def _shoot(self, page: Page, name: str, address: str) -> None:
        def complain(message: str) -> None:
            self.complaints.append(f"{name} ({address}): {message}")

        def complain_of(error: Error) -> None:
            complain(str(error))

        def hear(message: ConsoleMessage) -> None:
            # The browser reports the status of a page that is meant not to exist.
            expected = name.startswith("not-found") and "404" in message.text
            if message.type in ("error", "warning") and not expected:
                complain(message.text)

        page.on("console", hear)
        page.on("pageerror", complain_of)
        page.goto(self.url + address, wait_until="load")
        page.evaluate("document.fonts.ready")
        wider = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if wider > 1:  # a pixel is rounding
            complain(f"{wider} px wider than the window")
        page.screenshot(path=self.folder / f"{name}.png", full_page=True)
        page.remove_listener("console", hear)
        page.remove_listener("pageerror", complain_of)

    def _addresses(self, browser: Browser) -> dict[str, str]:
        """The fixed pages, and one of each kind that is found by following links."""
        page = browser.new_page()
        found = dict(FIXED)
        for start, pattern, name in FOLLOWED:
            if start in found:
                page.goto(self.url + found[start])
                if links := _links(page, pattern):
                    found[name] = links[0]
        page.goto(self.url + found["board"])
        ticks = page.eval_on_selector_all("input[name=m]", "all => all.map(one => one.value)")
        if len(ticks) > 1:
            found["compare-two"] = f"/compare?m={','.join(ticks[:2])}"
        page.close()
        return found


def _links(page: Page, pattern: str) -> list[str]:
    """The addresses on the page that match, with their queries, each once."""
    found = page.eval_on_selector_all("a[href]", "all => all.map(a => a.pathname + a.search)")
    return [link for link in dict.fromkeys(found) if re.fullmatch(pattern, link)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="address of the running site")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        print("no chromium on the PATH: install it", file=sys.stderr)
        return 2
    options.folder.mkdir(parents=True, exist_ok=True)
    tour = Tour(options.url.rstrip("/"), options.folder)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        tour.take(browser)
        browser.close()
    for complaint in tour.complaints:
        print(complaint, file=sys.stderr)
    print(f"{len(list(options.folder.glob('*.png')))} pictures in {options.folder}")
    return 1 if tour.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
