"""What is published, and how it is written: certificates, panels, data sets."""
