"""A fit that runs in the browser: a page that evaluates its networks, without a server."""
