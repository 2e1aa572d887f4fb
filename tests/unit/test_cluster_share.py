"""A cluster's workers over its devices: each computes its own share from the same properties."""

from __future__ import annotations

import pytest

from towpath.gateways.cluster_share import devices_text, members_of, share_of

THREE = "vm-1=10.0.0.1, vm-2=10.0.0.2, vm-3=10.0.0.3"


@pytest.mark.parametrize(
    ("workers", "each"), [(0, [0, 0, 0]), (1, [1, 0, 0]), (5, [2, 2, 1]), (6, [2, 2, 2]), (7, [3, 2, 2])]
)
def test_workers_when_split_over_devices_then_the_first_have_one_more(workers: int, each: list[int]) -> None:
    shares = [share_of(name, THREE, workers) for name, _ in members_of(THREE)]

    assert [share.workers for share in shares] == each
    assert {share.master for share in shares} == {"10.0.0.1"}
    assert [share.has_job for share in shares] == [workers > 0, False, False]


def test_device_when_it_is_alone_then_has_all_workers_and_the_job() -> None:
    share = share_of("vm-9", "", 3)

    assert (share.address, share.master, share.workers, share.has_job) == ("127.0.0.1", "127.0.0.1", 3, True)


def test_device_when_the_cluster_does_not_name_it_then_has_nothing() -> None:
    share = share_of("vm-9", THREE, 5)

    assert (share.workers, share.has_job) == (0, False)


def test_text_of_devices_when_read_again_then_is_the_same() -> None:
    assert devices_text(members_of(THREE)) == THREE


@pytest.mark.parametrize("text", ["vm-1", "=10.0.0.1", "vm-1=", "a=1,a=2", "a=1 b=2"])
def test_text_of_devices_when_it_is_wrong_then_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"device|twice"):
        share_of("vm-1", text, 1)
