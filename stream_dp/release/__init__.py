"""Published releases and their bytes: certificates, panels, data sets."""
