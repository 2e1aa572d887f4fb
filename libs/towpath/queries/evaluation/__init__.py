"""Make answers of panes, in Spark's workers. Start reading with `group`.

Nothing here knows contracts, Spark or the text of queries.
"""
