"""Every bound of the HTTP doors, by name (house rule 7). Sizes in bytes, times in seconds, rates per key."""

from __future__ import annotations

from dataclasses import dataclass

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})
"""Host names the network door answers to: a page that rebinds its own name to 127.0.0.1 is another host."""

MAX_KEYS = 4096
"""Most API keys in one key file; so most rate buckets too."""
MAX_MESSAGES = 256
MAX_STOPS = 4
MAX_STOP_CHARS = 256
MAX_TOKENS = 1_000_000
MAX_STATUS_QUEUE = 64
"""Status comments that may wait for a slow reader; later ones are dropped, never the answer."""
MAX_PIECES = 512
"""Most content chunks of one streamed answer."""
MIN_PIECE_CHARS = 48
RETRY_AFTER_S = 1
"""What a client is told when a bound on work under way is reached."""


@dataclass(frozen=True, slots=True)
class ApiSettings:
    """The doors' bounds. The defaults suit one node; each door has its own counts, so clients cannot lock the operator out."""

    max_connections: int = 512
    """Beyond it the connection that has been idle longest is closed for the new one; where none is idle, only the reserve is left."""
    reserved_connections: int = 32
    """Further connections, on which only health checks and metrics are served."""
    max_header_bytes: int = 16 * 1024
    max_body_bytes: int = 1024 * 1024
    linger_bytes: int = 4 * 1024 * 1024
    """How much of a refused body is read and thrown away so that the client can read its answer."""
    linger_s: float = 2.0
    header_deadline_s: float = 10.0
    """From the connection, or from the last response, until the next request's headers are complete; also the keep-alive time."""
    body_deadline_s: float = 15.0
    send_deadline_s: float = 15.0
    """One send to a client that does not read; then its connection is cut."""
    answer_deadline_s: float = 120.0
    """All the chunks of a streamed answer."""
    request_cap_s: float = 900.0
    """The outermost time for one request, above any ``max_wall_ms`` of policy: nothing hangs for ever behind a broken role."""
    stream_open_s: float = 1.0
    """How long a stream's headers wait for the acceptance, so that a refusal is an HTTP status."""
    keep_alive_comment_s: float = 10.0
    max_inflight: int = 256
    max_inflight_per_key: int = 128
    max_streams: int = 256
    rate_per_minute: int = 600
    rate_burst: int = 120
    grace_s: float = 3.0
    """What a shutdown allows to the responses under way."""
    hosts: frozenset[str] = LOOPBACK_HOSTS
