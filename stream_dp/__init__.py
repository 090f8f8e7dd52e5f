"""stream-dp: continual release of differentially private synthetic data, from a stream."""

from importlib.metadata import version

__version__ = version("stream-dp")
