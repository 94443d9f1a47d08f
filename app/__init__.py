"""What train_fit.py is made of: its options, what they come to, and its runs."""
