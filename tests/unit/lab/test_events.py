"""The events that a lab has, by its description."""

from __future__ import annotations

import pytest

from leadline import errors
from leadline.errors import LeadlineError
from leadline.lab.events import find_places, require_event
from leadline.plan.drill import DrillEvent
from leadline.plan.lab import LabDescription, Store, Topology


def lab(topology: Topology, osds: int = 6, **more: object) -> LabDescription:
    return LabDescription.model_validate({"topology": topology, "osds": osds, **more})


@pytest.mark.parametrize(
    ("topology", "event", "osds"),
    [
        (Topology.MULTI_ZONE, {"stop_osd": 4}, [4]),
        (Topology.MULTI_ZONE, {"stop_zone": "az2"}, [1, 4]),
        (Topology.SINGLE_ZONE, {"stop_host": "r2"}, [1, 4]),
        (Topology.SINGLE_ZONE, {"stop_host": "r2-h1"}, [1, 4]),
        (Topology.HOSTS, {"stop_host": "h3"}, [2, 5]),
    ],
)
def test_an_event_stops_the_osds_there(
    topology: Topology, event: dict[str, object], osds: list[int]
) -> None:
    given = DrillEvent.model_validate(event)
    require_event("x", lab(topology), given)
    assert [place.osd for place in find_places(lab(topology), given)] == osds


@pytest.mark.parametrize(
    ("topology", "event", "more", "words"),
    [
        (Topology.MULTI_ZONE, {"stop_osd": 6}, {}, "no OSD '6'"),
        (Topology.MULTI_ZONE, {"stop_zone": "az1"}, {}, "the only monitor"),
        (Topology.MULTI_ZONE, {"stop_zone": "az9"}, {}, "did you mean 'az"),
        (Topology.MULTI_ZONE, {"stop_host": "az2"}, {}, "no host 'az2'"),
        (Topology.SINGLE_ZONE, {"stop_zone": "az1"}, {}, "az1"),
        (Topology.MULTI_ZONE, {"lose_link": ["az1", "az7"]}, {}, "'az7'"),
        (Topology.MULTI_ZONE, {"lose_link": ["az1", "az1"]}, {}, "twice"),
        (Topology.HOSTS, {"lose_link": ["h1", "h2"]}, {}, "'h1'"),
        (Topology.MULTI_ZONE, {"stop_osd": 1}, {"store": Store.MEMSTORE}, "loses its data"),
    ],
)
def test_an_event_that_the_lab_lacks_is_refused(
    topology: Topology, event: dict[str, object], more: dict[str, object], words: str
) -> None:
    with pytest.raises(LeadlineError) as raised:
        require_event("x", lab(topology, **more), DrillEvent.model_validate(event))
    assert raised.value.kind is errors.LAB_INVALID
    assert words in str(raised.value)
