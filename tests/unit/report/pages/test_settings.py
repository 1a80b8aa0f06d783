"""A settings study as people read it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from leadline.analysis.settings.facts import Gain, Objection, SettingsStudy
from leadline.metrics import Metric
from leadline.plan.models import Target
from leadline.plan.settings import Setting
from leadline.report.document import Code, DeltaChart, Document, LineChart, Section, Table
from leadline.report.pages.settings import words
from leadline.report.pages.settings.charts import cell_charts, front_charts, mean_panels
from leadline.report.pages.settings.commands import apply_commands, confirming_plan
from leadline.report.pages.settings.page import settings_document
from leadline.report.render import html, markdown, terminal
from tests.unit.analysis.settings_runs import plan_of, some_study, study_of
from tests.unit.report.test_golden import check


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> SettingsStudy:
    return some_study(tmp_path_factory.mktemp("plan"))


@pytest.fixture(scope="module")
def document(study: SettingsStudy) -> Document:
    return settings_document(study)


def sections(document: Document) -> dict[str, Section]:
    return {one.id: one for one in document.sections}


@pytest.mark.parametrize(("kind", "texts"), [(Gain, words.GAINS), (Objection, words.OBJECTIONS)])
def test_every_fact_has_words(kind: type, texts: dict[object, str]) -> None:
    assert set(texts) == set(kind)  # type: ignore[call-overload]
    assert all(texts.values())


def test_markdown(document: Document) -> None:
    check("settings.md", markdown.render(document))


def test_terminal(document: Document) -> None:
    stream = io.StringIO()
    terminal.render(Console(width=100, file=stream, no_color=True), document)
    text = stream.getvalue()
    assert max(map(len, text.splitlines())) <= 100
    check("settings-terminal.txt", text)


def test_the_same_study_gives_the_same_page(study: SettingsStudy, document: Document) -> None:
    assert settings_document(study) == document
    assert html.render(document) == html.render(settings_document(study))


def test_the_first_screen_has_each_change_with_its_interval(study: SettingsStudy) -> None:
    panels = mean_panels(study)
    assert [panel.title for panel in panels][:2] == [
        "Mean change: rate",
        "Mean change: p99 latency",
    ]
    rate = panels[0]
    for row, effect in zip(rate.rows, study.effects, strict=True):
        assert effect.rate is not None
        assert (row.ratio, row.interval) == (effect.rate.ratio, effect.rate.interval)
        assert row.verdict == effect.rate.verdict.value


def test_each_cell_has_a_dot_below_the_mean_of_its_state(study: SettingsStudy) -> None:
    for chart in cell_charts(study):
        assert isinstance(chart, DeltaChart)
        groups = [row.group for row in chart.rows]
        assert list(dict.fromkeys(groups)) == [one.state.name for one in study.effects]
        assert len(chart.rows) <= 40 + len(study.effects)


def test_gain_against_cost_shows_the_present_state(study: SettingsStudy) -> None:
    charts = list(front_charts(study))
    assert len(charts) == len(study.front_costs) == 2
    for chart in charts:
        assert isinstance(chart, LineChart)
        assert chart.lines[0].points == ((1.0, 1.0),)
        assert len(chart.lines) == 1 + len(study.effects)


def test_commands_and_the_plan_that_confirms_them(study: SettingsStudy) -> None:
    chosen = study.recommended
    assert chosen is not None
    assert apply_commands(study, chosen) == (
        "ceph config set osd osd_mclock_profile high_client_ops",
    )
    written = yaml.safe_load(confirming_plan(study, chosen))
    assert written["design"] == "full"
    assert written["settings"]["mclock"]["ceph_config"]["values"] == ["high_client_ops"]


def test_two_recommended_settings_are_confirmed_together(tmp_path: Path) -> None:
    settings = {
        "object": {"image": {"object_size": ["1M"]}},
        "memory": {"ceph_config": {"who": "osd", "name": "osd_memory_target", "values": ["8G"]}},
    }

    def effect(target: Target, workload: str, metric: Metric) -> float:
        return 1.3 if target.settings and metric is Metric.IOPS else 1.0

    study = study_of(plan_of(tmp_path, settings=settings), effect)
    chosen = study.recommended
    assert chosen is not None
    document = settings_document(study)
    codes = [one for one in sections(document)["recommended"].blocks if isinstance(one, Code)]
    assert len(codes) == 2
    assert "ceph config set osd osd_memory_target 8G" in codes[0].text
    written = yaml.safe_load(codes[1].text)
    for name, given in written["settings"].items():
        Setting.model_validate({"name": name, **given})
    again = plan_of(tmp_path, settings=written["settings"], design=written["design"])
    assert [target.name for target in again.targets] == ["rep3", "rep3 object=1M memory=8G"]


def test_refused_cells_name_the_error(document: Document) -> None:
    (table,) = (one for one in sections(document)["refused"].blocks if isinstance(one, Table))
    assert [[cell.text for cell in row] for row in table.rows] == [
        [
            "compression=aggressive",
            "rep2",
            "4",
            "setting-not-applied: compression_mode of pool rep2 is still none",
        ]
    ]


def test_a_study_without_a_gain(tmp_path: Path) -> None:
    study = study_of(plan_of(tmp_path), costs=False)
    document = settings_document(study)
    assert document.summary[0] == (
        "None of 4 states has an established gain over the present state."
    )
    assert "recommended" not in sections(document)
    assert any("Not measured: " in one for one in document.summary)


def test_an_inconclusive_state_needs_more_repeats(tmp_path: Path) -> None:
    study = study_of(plan_of(tmp_path, repeats=3), noise=0.1)
    rates = [effect.rate for effect in study.effects if effect.rate]
    needed = [rate.judgement.trials_needed for rate in rates if rate.judgement.trials_needed]
    assert needed
    assert (
        f"Inconclusive: about {max(needed)} repeats would probably decide each of them."
        in settings_document(study).summary
    )


def test_the_headline_is_short(study: SettingsStudy) -> None:
    assert len(words.settings_headline(study).split()) <= 20


def test_interactions_are_on_the_page_of_a_full_design(tmp_path: Path) -> None:
    study = study_of(plan_of(tmp_path, design="full"))
    (table,) = sections(settings_document(study))["interactions"].blocks
    assert isinstance(table, Table)
    assert table.rows[0][0].text == "mclock=high_client_ops with memory=8G"
