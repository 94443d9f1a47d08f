"""Hook of the site: a link above each notebook that opens it in Colab.

The address of the repository is that of the environment variable REPOSITORY, which the workflow of
the site sets; a site that is built elsewhere has no such link.
"""

import os
from typing import Any
from urllib.parse import urlsplit


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Put the link before the first cell."""
    repository = urlsplit(os.environ.get("REPOSITORY", ""))
    source = page.file.src_uri
    if not source.endswith(".ipynb") or repository.hostname != "github.com":
        return html
    address = f"https://colab.research.google.com/github{repository.path}/blob/main/docs/{source}"
    return f'<p><a class="md-button" href="{address}">Open in Colab</a></p>{html}'
