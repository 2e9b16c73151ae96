"""Tests of the checkout itself: its rooms and sizes, its generated documents, what its checks see."""
