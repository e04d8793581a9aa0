"""Runs that wait, run and fail: claims, turns, pace, and the pages of queue and pool."""
