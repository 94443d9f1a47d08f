"""Texts, stories, pairs and labeled sentences, from files or built in.

Read `types` first.
"""
