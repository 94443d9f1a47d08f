"""Images: a network from coordinates to RGB.

Read `image` for the kind itself; `defaults` says what is fitted unless the user says otherwise.
"""
