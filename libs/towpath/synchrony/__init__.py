"""From two operators' result streams to one: consistency checks without a process or a clock."""
