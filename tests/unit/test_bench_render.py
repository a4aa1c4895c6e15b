"""bench/render.py: figures in documents are what bench/results give."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from sqlcache.bench import results
from sqlcache.bench.results import Parameters, Result, Run

SCRIPT = Path(__file__).parents[2] / "bench" / "render.py"
DOCUMENT = "# Title\n\n<!-- bench:begin -->\n<!-- bench:end -->\n\nThe rest.\n"
QUERY = "one label, 0.1 % of pods, uniform"


@pytest.fixture(scope="module")
def render() -> ModuleType:
    spec = importlib.util.spec_from_file_location("render", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "bench" / "results").mkdir(parents=True)
    (tmp_path / "README.md").write_text(DOCUMENT)
    (tmp_path / "bench" / "README.md").write_text(DOCUMENT)
    return tmp_path


def save(
    root: Path,
    name: str,
    pods: int,
    us: float,
    date: str = "2026-01-02",
    scenario: str = "single-label",
    query: str = QUERY,
) -> None:
    where = {
        "cpu": "a CPU",
        "cores": 2,
        "memory_bytes": 2**30,
        "system": "Linux",
        "python": "CPython",
        "sqlite": "3",
        "sqlcache": "0",
        "commit": None,
        "date": date,
    }
    made = [Result(scenario, "dict", "repeat", each, pods, 1, [us]) for each in (query, "other")]
    run = Run(where, Parameters(pods, ("dict",), (scenario,)), made)
    (root / "bench" / "results" / name).write_bytes(results.to_json(run))


def test_documents_without_results_are_in_step(render: ModuleType, root: Path) -> None:
    assert render.main(["--check"], root) == 0


def test_check_fails_until_rendered_and_rendering_twice_changes_nothing(
    render: ModuleType, root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save(root, "a.json", 1000, 12.0)
    assert render.main(["--check"], root) == 1
    assert "README.md is not what bench/results give" in capsys.readouterr().err
    assert (root / "README.md").read_text() == DOCUMENT
    assert render.main([], root) == 0
    assert render.main(["--check"], root) == 0
    text = (root / "README.md").read_text()
    assert text.startswith("# Title\n\n<!-- bench:begin -->\n")
    assert text.endswith("<!-- bench:end -->\n\nThe rest.\n")


def test_figure_changed_by_hand_is_found(render: ModuleType, root: Path) -> None:
    save(root, "a.json", 1000, 12.0)
    render.main([], root)
    readme = root / "README.md"
    readme.write_text(readme.read_text().replace("12 / 12", "11 / 12"))
    assert render.main(["--check"], root) == 1


def test_readme_shows_the_lines_that_stand_for_a_scenario_of_the_largest_run(
    render: ModuleType, root: Path
) -> None:
    save(root, "small.json", 1000, 12.0, "2026-03-01")
    save(root, "large.json", 2000, 34.0, "2026-01-01")
    render.main([], root)
    readme = (root / "README.md").read_text()
    assert f"| 2,000 | {QUERY}; repeat | 1 | 34 / 34 |" in readme
    assert "| 1,000 |" not in readme
    assert "other" not in readme
    everything = (root / "bench" / "README.md").read_text()
    assert everything.count("### ") == 2
    assert everything.count("other; repeat") == 2


def test_readme_takes_each_scenario_from_the_newest_run_that_has_it(
    render: ModuleType, root: Path
) -> None:
    several = "5 of 5 labels, selective one last"
    save(root, "old.json", 2000, 12.0, "2026-01-01")
    save(root, "other.json", 2000, 56.0, "2026-02-01", "multi-label", several)
    save(root, "new.json", 2000, 34.0, "2026-03-01")
    render.main([], root)
    readme = (root / "README.md").read_text()
    assert f"| 2,000 | {QUERY}; repeat | 1 | 34 / 34 |" in readme
    assert f"| 2,000 | {several}; repeat | 1 | 56 / 56 |" in readme
    assert "12 / 12" not in readme
    assert readme.index("2026-03-01") < readme.index("2026-02-01")


@pytest.mark.parametrize("document", ["", "<!-- bench:begin -->", "<!-- bench:end -->"])
def test_document_without_markers_is_refused(render: ModuleType, document: str) -> None:
    with pytest.raises(ValueError, match="the document needs"):
        render.replaced(document, "text")


def test_documents_of_this_project_are_in_step(render: ModuleType) -> None:
    assert render.main(["--check"]) == 0
