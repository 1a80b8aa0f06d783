"""What does the I/O: fio, and the replay of recorded output."""
