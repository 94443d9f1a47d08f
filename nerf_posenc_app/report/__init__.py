"""The output of a run: a table, images, videos, a page and the results as JSON.

It draws blocks and knows no kind of data. Read `page` and its templates for the page, `charts` for
their lines, `metrics` for what is read back. The line that draws the divider is in
``templates/view.html.j2``.
"""
