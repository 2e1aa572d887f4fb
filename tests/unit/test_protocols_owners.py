"""Every command that opens an output names the site that publishes under each of its epochs."""

from __future__ import annotations

import pytest
from operation_trial import entry, operation
from pydantic import ValidationError

from towpath.contracts.migration import OpenShadow, SetEpoch
from towpath.protocols.epochs import owners, undo_epoch
from towpath.protocols.operations.deploy import withdraw_output
from towpath.protocols.shared_steps import set_epoch, unset_epoch
from towpath.protocols.strategies.parallel import divert, undivert

SET_EPOCH = {**SetEpoch.example, "epoch": 5, "beside": 3}


def test_owners_when_a_job_moves_then_only_the_new_epoch_is_the_targets() -> None:
    assert owners(operation("handover"), 1, 2, 3, 5) == {1: "jfk", 2: "jfk", 3: "cloud", 5: "jfk"}


def test_set_epoch_when_a_migration_is_rolled_back_then_names_the_source() -> None:
    begun = operation("general").model_copy(update={"begun": ("set-epoch",)})

    assert set_epoch.command(begun).owners == {2: "cloud"}
    assert unset_epoch(begun).owners == {undo_epoch(begun): "jfk"} == {3: "jfk"}


def test_divert_when_both_runs_go_aside_then_names_both_and_the_rollback_names_the_source() -> None:
    begun = operation("parallel").model_copy(update={"begun": ("divert",)})

    assert divert.command(begun).owners == {1: "jfk", 3: "cloud"}
    assert undivert(begun).owners == {5: "jfk"}


def test_output_when_a_deploy_is_withdrawn_then_names_the_jobs_site() -> None:
    record = operation("redeploy").model_copy(update={"after": entry(site="cloud", epoch=2)})

    command = withdraw_output(record)

    assert isinstance(command, SetEpoch)
    assert command.owners == {command.epoch: "cloud"}


@pytest.mark.parametrize("named", [{}, {5: "jfk"}, {3: "jfk"}, {3: "jfk", 5: "cloud", 6: "cloud"}])
def test_set_epoch_when_it_does_not_name_the_owners_of_its_epochs_then_is_refused(
    named: dict[int, str],
) -> None:
    assert SetEpoch.model_validate({**SET_EPOCH, "owners": {"3": "jfk", "5": "cloud"}}).owners[3] == "jfk"
    with pytest.raises(ValidationError, match="owners names those of epochs"):
        SetEpoch.model_validate({**SET_EPOCH, "owners": named})


def test_open_shadow_when_it_does_not_name_the_owners_of_its_epochs_then_is_refused() -> None:
    with pytest.raises(ValidationError, match="owners names those of epochs"):
        OpenShadow.model_validate({**OpenShadow.example, "epochs": [1, 4]})
