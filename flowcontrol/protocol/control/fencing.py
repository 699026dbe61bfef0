"""Fencing: a call for a leader that is no more is not executed."""

from hashlib import blake2b

from flowcontrol.errors import FencingTokenError


def new_token(endpoint: str, term: int) -> str:
    """Return the token of a leader: 16 bytes, in hexadecimal digits.

    Parameters
    ----------
    endpoint : str
        Name of the endpoint.
    term : int
        How often somebody has become its leader so far.

    Notes
    -----
    Flink draws a UUID at each gain of leadership; ours is a function of both, so that two runs of
    a scenario are equal.
    """
    return blake2b(f"{endpoint}/{term}".encode(), digest_size=16).hexdigest()


def check_token(endpoint: str, name: str, carried: str | None, own: str | None) -> None:
    """Refuse a call whose token is not that of the endpoint.

    Parameters
    ----------
    endpoint, name : str
        Who is called, and what.
    carried : str or None
        Token of the call.
    own : str or None
        Token of the endpoint; None: it leads nothing.

    Raises
    ------
    FencingTokenError
        If none is set, or they differ.

    Notes
    -----
    ``FencedPekkoRpcActor.handleRpcMessage``.
    """
    if own is None:
        raise FencingTokenError(
            f"fencing token not set: {endpoint} ignores {name}, since it has no token "
            f"(the call carries {carried})"
        )
    if carried != own:
        raise FencingTokenError(
            f"fencing token mismatch: {endpoint} ignores {name}, since the call's token, "
            f"{carried}, is not the expected one, {own}"
        )
