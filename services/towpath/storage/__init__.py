"""The storage of one site: takes values out of the site's streams, keeps them, and answers for them.

Start reading with `app`. How values are kept is in `towpath.stored_values`.
"""
