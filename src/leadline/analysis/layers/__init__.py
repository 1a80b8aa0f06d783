"""Where a trial's I/O goes: what each layer below a target did, and what came between layers."""
