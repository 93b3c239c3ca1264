"""What mkdocs calls while it builds the site. `mkdocs.yml` names this file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # mkdocs loads this file by its path

from pages.links import included, rewritten


def on_page_markdown(markdown: str, *, page: Any, **_: object) -> str:
    """Put in the file that a page stands for, and make its links those of the site."""
    path = Path(page.file.abs_src_path)
    source = included(markdown)
    if source is None:
        return rewritten(markdown, path, path)
    return rewritten(source.read_text(encoding="utf-8"), source, path)


def on_post_template(output_content: str, *, template_name: str, config: Any) -> str:
    """Keep the page for missing addresses of the English site: each language writes it to the same place."""
    first = Path(config["site_dir"]) / template_name
    if template_name == "404.html" and config["theme"]["language"] != "en" and first.exists():
        return first.read_text(encoding="utf-8")
    return output_content
