"""The JSON answer of each verb, by the verb's name."""

from __future__ import annotations

from pydantic import BaseModel

from leadline.report.answers.comparison import CompareOutput
from leadline.report.answers.drill import DrillOutput
from leadline.report.answers.gate import GateOutput
from leadline.report.answers.history import HistoryOutput
from leadline.report.answers.layers import LayersOutput
from leadline.report.answers.placement import PoolsPlacementOutput
from leadline.report.answers.predict import PredictOutput
from leadline.report.answers.ranking import RankOutput, RecommendOutput
from leadline.report.answers.run import (
    AuditOutput,
    CheckOutput,
    ImportOutput,
    ListOutput,
    RunOutput,
    ShowOutput,
    VerifyOutput,
)
from leadline.report.answers.scaling import ScaleOutput
from leadline.report.answers.settings import SettingsOutput
from leadline.report.answers.site import SiteOutput
from leadline.report.answers.systems import InventoryOutput, LabOutput, PlanOutput, PoolsOutput

SCHEMAS: dict[str, type[BaseModel]] = {
    "audit": AuditOutput,
    "check": CheckOutput,
    "compare": CompareOutput,
    "drill": DrillOutput,
    "gate": GateOutput,
    "history": HistoryOutput,
    "import": ImportOutput,
    "inventory": InventoryOutput,
    "lab": LabOutput,
    "layers": LayersOutput,
    "list": ListOutput,
    "plan": PlanOutput,
    "pools": PoolsOutput,
    "pools-placement": PoolsPlacementOutput,
    "predict": PredictOutput,
    "rank": RankOutput,
    "recommend": RecommendOutput,
    "run": RunOutput,
    "scale": ScaleOutput,
    "settings": SettingsOutput,
    "show": ShowOutput,
    "site": SiteOutput,
    "verify": VerifyOutput,
}
