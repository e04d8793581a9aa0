"""From a form to runs in the queue, and the page that follows them."""

__all__: list[str] = []
