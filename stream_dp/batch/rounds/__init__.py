"""The adaptive loop: phases of measurements, each decided once, and the noise of every phase."""
