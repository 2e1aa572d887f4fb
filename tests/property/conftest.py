"""What all property tests share: the number of examples."""

import examples  # noqa: F401
