"""Make one result stream of two operators': consistency checks without a process or a clock."""
