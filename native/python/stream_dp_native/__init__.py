"""The compiled reader of stream-dp. The library uses it if it is installed."""

from ._native import ClientError, Consumer, Decoder

INTERFACE = 2  # of `stream_dp.compiled`

__all__ = ["INTERFACE", "ClientError", "Consumer", "Decoder"]
