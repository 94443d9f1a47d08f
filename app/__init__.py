"""The program behind train_fit.py; it is not part of the wheel.

Read `cli`, then `kinds.kind` and `runs.run`: a run opens the data of its kind, resolves the
options, fits one encoding after the other, and writes the run folder (`report`).
"""
