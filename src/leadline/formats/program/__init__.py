"""Output of benchmark programs that make their own data: pgbench, sysbench fileio."""
