"""Whom a full server lets go: so that no number of slow clients takes it from the others.

waitress closes a connection on which nothing moves, but none that moves a byte now and then, none
whose answer is still being made, and none whose answer nobody reads (it waits to write first). Each
rule here looks at all connections of a process, a waitress server; those of answers close some only
where all together have taken too much.
"""

from __future__ import annotations

from typing import Any

from waitress.buffers import ReadOnlyFileBasedBuffer

WHOLE_REQUEST_SECONDS = 20.0
"""In which a request must have arrived; ours are an address or a small form."""
LEFT_BEHIND = 2 * 2**30
"""Bytes of all answers together that their readers have not taken yet, most of them on disk."""
CROWDED = 0.9
"""Of the connections that there may be: beyond, those go on which nothing moved for longest."""


def let_go(server: Any, now: float) -> None:
    """`now` is of a clock that never goes back."""
    close_unfinished(server, now)
    close_idle(server)
    close_waited_for(server, now)
    close_left_behind(server)
    end_what_is_closed(server)


def end_what_is_closed(server: Any) -> None:
    """waitress ends a connection when it can next be written to: of an unread one, never.

    So it is with those that it closes itself because nothing moved on them.
    """
    for channel in _channels(server):
        if channel.will_close:
            channel.handle_close()


def close_unfinished(server: Any, now: float) -> None:
    """Close connections that have taken too long over one request, a byte now and then or none.

    waitress's own time-out starts anew with every byte.
    """
    for channel in _channels(server):
        request = channel.request
        if request is None:
            continue
        begun = vars(request).setdefault("begun", now)
        if now - begun > WHOLE_REQUEST_SECONDS:
            channel.will_close = True


def close_idle(server: Any) -> None:
    """Where hardly any more connection is taken, make room: nobody new could else come in."""
    channels = _channels(server)
    too_many = len(channels) - int(CROWDED * server.adj.connection_limit)
    if too_many <= 0:
        return
    resting = [channel for channel in channels if not channel.requests]
    for channel in sorted(resting, key=lambda channel: channel.last_activity)[:too_many]:
        channel.will_close = True


def close_waited_for(server: Any, now: float) -> None:
    """Where threads wait until answers are read, beyond half of them, end what waits for longest.

    A thread waits where an answer is larger than what it may leave behind.
    """
    waiting = []
    for channel in _channels(server):
        if channel.requests and channel.total_outbufs_len > server.adj.outbuf_high_watermark:
            vars(channel).setdefault("waits_since", now)
            waiting.append(channel)
        else:
            vars(channel).pop("waits_since", None)
    waiting.sort(key=lambda channel: channel.waits_since)
    for channel in waiting[: max(0, len(waiting) - server.adj.threads // 2)]:
        channel.will_close = True


def close_left_behind(server: Any) -> None:
    """Where unread answers fill memory and disk, end the largest of them."""
    held = [(_left_behind(channel), channel) for channel in _channels(server)]
    held.sort(key=lambda pair: pair[0])
    total = sum(n_bytes for n_bytes, _ in held)
    while total > LEFT_BEHIND and held:
        n_bytes, channel = held.pop()
        channel.will_close = True
        total -= n_bytes


def _left_behind(channel: Any) -> int:
    """Bytes; of a stored file none, which is read as it is sent."""
    return sum(
        len(buffer)
        for buffer in list(channel.outbufs)
        if not isinstance(buffer, ReadOnlyFileBasedBuffer)
    )


def _channels(server: Any) -> list[Any]:
    return list(server.active_channels.values())
