"""The commands of `stream-dp`, a module each."""
