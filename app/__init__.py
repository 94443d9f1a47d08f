"""The program behind train_fit.py; it is not part of the wheel.

Read `cli`, then `run`: a run resolves the options (`config`), makes a `task` of the image or scene,
fits it with one encoding after the other, and writes the run folder (`report`).
"""
