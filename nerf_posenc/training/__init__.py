"""The training loop and all it is given: batches, schedules, optimizers, recipes.

Read `loop` first: the line that steps the optimizer is in it.
"""
