"""What the site tells whoever wants to hear it; it does not know who listens."""

from django.dispatch import Signal

runs_queued = Signal()
"""Runs wait for a worker; sent after the transaction that queued them, and never needed."""
