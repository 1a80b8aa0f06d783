"""Benchmark programs that make their own data: pgbench, sysbench fileio."""
