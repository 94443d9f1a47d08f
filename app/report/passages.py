"""Examples of test data as HTML, with what a model predicted rightly and wrongly in color."""

from html import escape

from nerf_posenc.training.system import Passage, Token

# For the live page, which is dark.
_STYLE = (
    "<style>.passage { white-space: pre-wrap; font-family: monospace; }"
    ".right { color: #36c9a0; } .wrong { color: #f08a4b; text-decoration: underline; }</style>"
)


def passage_html(name: str, passage: Passage) -> str:
    """One encoding's passage for the live page."""
    return f'{_STYLE}<b>{escape(name)}</b><div class="passage">{passage_spans(passage)}</div>'


def passage_spans(passage: Passage) -> str:
    """Tokens of a passage with classes ``right`` and ``wrong``; neighbors of one kind are joined.

    A wrong prediction has the truth as its title.
    """
    parts: list[str] = []
    given: list[str] = []
    for token in passage.tokens:
        if token.mark == "given":
            given.append(token.text)
            continue
        parts += [escape("".join(given)), _marked(token)]
        given = []
    return "".join([*parts, escape("".join(given))])


def _marked(token: Token) -> str:
    # A space or a line break would not be visible.
    text = {" ": "␣", "\n": "↵"}.get(token.text, token.text)
    title = f' title="{escape(f"true: {token.truth}")}"' if token.mark == "wrong" else ""
    return f'<span class="{token.mark}"{title}>{escape(text)}</span>'
