"""What a lab tells of itself among the dumps of its cluster."""

from __future__ import annotations

import json

from pydantic import ValidationError

from leadline import errors
from leadline.errors import LeadlineError
from leadline.inventory.ceph_dumps import Dumps
from leadline.plan.lab_description import LabDescription

LAB = "lab.json"


def described_lab(dumps: Dumps) -> LabDescription | None:
    """The description of the lab that the dumps are of; None for a cluster that is none. Raises
    LeadlineError(`dumps-invalid`)."""
    content = dumps.get(LAB)
    if content is None:
        return None
    try:
        told = json.loads(content)
        return LabDescription.model_validate(told["description"])
    except (ValueError, KeyError, TypeError, RecursionError, ValidationError) as error:
        raise LeadlineError(
            errors.DUMPS_INVALID,
            f"{LAB} is not what this version of Leadline writes of a lab",
            hint="it was changed, or comes of a newer version",
        ) from error
