"""What nvme-cli prints, one module for each output."""
