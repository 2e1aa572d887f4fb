"""StreamSight queries: text to tree, tree to shared plan, plan to jobs, and the evaluation of answers.

`parsing` reads a text, `checking` finds what its names mean, `planning` shares work between queries, and
`compilation` makes jobs of it. `evaluation` runs in Spark's workers. `reference` says slowly what all means.
Nothing here starts or sends anything. Start reading with `tree`.
"""
