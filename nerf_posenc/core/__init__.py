"""The exact sinusoid: bands, columns, and the evaluation that every encoder shares.

Read `sinusoids` first: the line that multiplies by pi is in it.
"""
