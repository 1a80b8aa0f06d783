"""The section of a run's page on its layers."""

from __future__ import annotations

from leadline.analysis.layers.study import layer_study
from leadline.archive.reader import Run
from leadline.errors import LeadlineError
from leadline.findings import Finding
from leadline.report.document import Section
from leadline.report.layers.sections import page_section, sweep_sentences


def layers_of_page(
    run: Run, findings: tuple[Finding, ...]
) -> tuple[tuple[str, ...], tuple[Section, ...]]:
    """Sentences for its summary, and the section; none of a run without layers: one of an earlier
    version, an import, or of targets below which this machine could not see."""
    try:
        study = layer_study(run, findings) if run.stacks else None
    except LeadlineError:
        return (), ()  # a damaged record, or no such targets; `leadline layers` says which
    return (sweep_sentences(study) if study else ()), page_section(study)
