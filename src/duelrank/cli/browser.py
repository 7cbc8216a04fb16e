"""Opens a page in a browser, for the commands that show one."""

from __future__ import annotations

import os
import sys
import webbrowser
from threading import Thread
from typing import Annotated

import typer

OpenOption = Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")]


def open_page(address: str) -> None:
    """Open a page in a browser where there is a screen; does not wait, because some browsers return when they are closed."""
    if _has_screen():
        Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _has_screen() -> bool:
    """Whether a browser would have a window; one in the terminal would only hide the address."""
    return sys.platform in ("darwin", "win32") or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")))
