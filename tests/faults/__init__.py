"""What must not break a run: signals, hostile files, hostile messages. See docs/faults.md."""
