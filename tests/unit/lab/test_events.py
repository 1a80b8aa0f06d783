"""The events that a lab has, by its description."""

from __future__ import annotations

import pytest

from leadline import errors
from leadline.errors import LeadlineError
from leadline.lab.events import find_places, require_event
from leadline.plan.drill import DrillEvent
from leadline.plan.lab import LabDescription, Store, Topology


def lab(topology: Topology, store: Store = Store.BLUESTORE) -> LabDescription:
    return LabDescription(topology=topology, osds_per_host=2, store=store)


@pytest.mark.parametrize(
    ("topology", "event", "osds"),
    [
        (Topology.MULTI_ZONE, {"stop_osd": 4}, [4]),
        (Topology.MULTI_ZONE, {"stop_zone": "az2"}, [1, 4]),
        (Topology.SINGLE_ZONE, {"stop_host": "r2"}, [1, 4]),
        (Topology.SINGLE_ZONE, {"stop_host": "r2-h1"}, [1, 4]),
        (Topology.HOSTS, {"stop_host": "h3"}, [2, 5]),
        (Topology.MULTI_ZONE, {"add_host": "az2-h1"}, [1, 4]),
    ],
)
def test_an_event_stops_the_osds_there(
    topology: Topology, event: dict[str, object], osds: list[int]
) -> None:
    given = DrillEvent.model_validate(event)
    require_event("x", lab(topology), given)
    assert [place.osd for place in find_places(lab(topology), given)] == osds


@pytest.mark.parametrize(
    ("topology", "event", "store", "words"),
    [
        (Topology.MULTI_ZONE, {"stop_osd": 6}, Store.BLUESTORE, "no OSD '6'"),
        (Topology.MULTI_ZONE, {"stop_zone": "az1"}, Store.BLUESTORE, "the only monitor"),
        (Topology.MULTI_ZONE, {"stop_zone": "az9"}, Store.BLUESTORE, "did you mean 'az"),
        (Topology.MULTI_ZONE, {"stop_host": "az2"}, Store.BLUESTORE, "no host 'az2'"),
        (Topology.SINGLE_ZONE, {"stop_zone": "az1"}, Store.BLUESTORE, "az1"),
        (Topology.MULTI_ZONE, {"lose_link": ["az1", "az7"]}, Store.BLUESTORE, "'az7'"),
        (Topology.MULTI_ZONE, {"lose_link": ["az1", "az1"]}, Store.BLUESTORE, "twice"),
        (Topology.HOSTS, {"lose_link": ["h1", "h2"]}, Store.BLUESTORE, "'h1'"),
        (Topology.MULTI_ZONE, {"stop_osd": 1}, Store.MEMSTORE, "loses its data"),
        (Topology.SINGLE_ZONE, {"add_host": "r2"}, Store.MEMSTORE, "it has r1-h1, r2-h1, r3-h1"),
    ],
)
def test_an_event_that_the_lab_lacks_is_refused(
    topology: Topology, event: dict[str, object], store: Store, words: str
) -> None:
    with pytest.raises(LeadlineError) as raised:
        require_event("x", lab(topology, store), DrillEvent.model_validate(event))
    assert raised.value.kind is errors.LAB_INVALID
    assert words in "\n".join((raised.value.fact, *raised.value.context, raised.value.hint))
