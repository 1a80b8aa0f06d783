"""Which settings of ZFS and of the image below it can matter for a trial, and which cannot."""
