"""Commands of ``train_fit.py`` for runs that were saved: compare, render, export."""

from app.commands.compare import compare as compare
from app.commands.export import export as export
from app.commands.render import render as render
