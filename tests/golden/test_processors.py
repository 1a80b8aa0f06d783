"""The same archive gives the same bytes on another processor.

numpy and OpenBLAS choose their code by the processor's vector units. Their variables make them
choose that of a lesser processor, which adds in another order.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from numpy._core._multiarray_umath import __cpu_dispatch__ as dispatched
from numpy._core._multiarray_umath import __cpu_features__ as features

from tests.conftest import ROOT, unpack
from tests.kept_text import differing_lines

TABLE = ROOT / "tests/recorded/imports/table/multizone-vs-singlezone.csv"
FORECAST = ROOT / "tests/recorded/predict-lab/run.tar.xz"
# Units that numpy would use here, from the oldest to the newest: without the newest, without the
# newest two, and so on.
UNITS = [unit for unit in dispatched if features.get(unit)]
WITHOUT = [" ".join(UNITS[first:]) for first in range(len(UNITS))]
# OpenBLAS ends with SIGILL in the code of a unit that the processor lacks.
CORES = {"Prescott": "SSE3", "Sandybridge": "AVX", "Haswell": "AVX2", "Zen": "AVX2"}
CORES |= {"SkylakeX": "AVX512F"}
VARIABLES = ("NPY_DISABLE_CPU_FEATURES", "OPENBLAS_CORETYPE")
PROCESSORS = [
    *(
        pytest.param({"NPY_DISABLE_CPU_FEATURES": units}, id=f"without {units}")
        for units in WITHOUT
    ),
    *(
        pytest.param({"OPENBLAS_CORETYPE": core}, id=core)
        for core, unit in CORES.items()
        if features.get(unit)
    ),
]
# In one process, because each would import the same packages.
PROGRAM = """
import sys
from leadline.cli.main import cli
for line in sys.stdin:
    assert not cli.main(args=line.split(), standalone_mode=False), line
"""
SIDES = "study-single-zone study-multi-zone"
COMMANDS = (
    *(f"report {SIDES} --force -o {name}" for name in ("out.json", "out.csv", "out.html")),
    "predict {archive} --format json",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("processors")
    _run(path, [f"import table {TABLE} --run study"], {})
    unpack(FORECAST, path)
    return path


def _run(folder: Path, commands: Sequence[str], processor: Mapping[str, str]) -> str:
    """Run commands with the variables of a processor; return what they print."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input="\n".join(commands),
        cwd=folder,
        env={**environment, **processor},
        encoding="utf-8",
        check=True,
        stdout=subprocess.PIPE,
    )
    return ended.stdout


def _answers(folder: Path, processor: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Return the files of a comparison by name, and the JSON of a forecast."""
    (archive,) = folder.glob("*-predict-lab")
    printed = _run(folder, [text.format(archive=archive) for text in COMMANDS], processor)
    files = {path.name: path.read_text("utf-8") for path in sorted(folder.glob("out.*"))}
    assert len(files) == 3
    return files, printed


@pytest.fixture(scope="module")
def here(folder: Path) -> tuple[dict[str, str], str]:
    return _answers(folder, {})


@pytest.mark.parametrize("processor", PROCESSORS)
def test_another_processor_writes_the_same(
    folder: Path, here: tuple[dict[str, str], str], processor: dict[str, str]
) -> None:
    """A comparison has the same bytes.

    A forecast inverts matrices, which enlarges differences: some of its ten thousand numbers may
    lie on the two sides of the middle between two written ones. It has the same numbers but for
    the last of the 12 digits, and the same text.
    """
    files, forecast = _answers(folder, processor)
    assert files == here[0]
    assert '"leadline/predict/1"' in forecast
    assert differing_lines(here[1], forecast) == []
