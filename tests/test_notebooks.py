"""The notebooks as files: complete, portable, linted, spelled. What their cells do is run by the notebooks tier of `.ci/run`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "notebooks"
COURSE = sorted(FOLDER.glob("0[1-8]_*.ipynb"))
SOLUTIONS = sorted((FOLDER / "solutions").glob("*.ipynb"))
NOTEBOOKS = [FOLDER / "00_quickstart.ipynb", *COURSE, *SOLUTIONS]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").glob("*.md")])

ON_RANKS = ["rank", "local_rank", "node_rank", "world_size", "device", "dist", "torch"]  # what every rank has under these names
MACHINE_PATH = re.compile(r"/(home|root|tmp|Users|work|usr/local/lib)/")
MAGIC = re.compile(r"^\s*[%!]", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#]+)[^)]*\)")
COLLECTED = re.compile(r"^%%\w+.* --as (\w+)", re.MULTILINE)
# a cell imports where it needs to, ends in a value or a comparison, may hide it with a semicolon, and defines a name anew
RUFF = ["--select=E,F,W,B,UP,C4", "--ignore=E402,E703,B015,B018,F811,B905", "--line-length=130", "--target-version=py310"]
SPELLING = ["--ignore-words-list=ser,fo"]
# long lines, inline HTML (folded hints), bold text on a line of its own, no first heading, code blocks of no language
MARKDOWN = ["--disable-rules=md013,md033,md036,md041,md040", "scan"]


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    found = json.loads(path.read_text())["cells"]
    return [{**cell, "source": "".join(cell["source"])} for cell in found if cell["cell_type"] == kind]


def code_of(cell: dict[str, Any]) -> str:
    """A cell's Python: magics become comments, so that lines keep their numbers; a last semicolon only hides the value."""
    return "\n".join(f"# {line}" if MAGIC.match(line) else line for line in cell["source"].removesuffix(";").split("\n")) + "\n"


def run(*command: str, text: str | None = None) -> str:
    done = subprocess.run([sys.executable, "-m", *command], input=text, capture_output=True, text=True, timeout=60, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_every_code_cell_was_run_from_top_to_bottom_and_the_file_is_portable(path: Path) -> None:
    code = cells(path, "code")
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    for cell in code:
        kept = [
            json.dumps({kind: value for kind, value in output.get("data", output).items() if kind != "image/png"})
            for output in cell["outputs"]
        ]
        assert not MACHINE_PATH.search(cell["source"] + "".join(kept)), f"{cell['id']} tells where it was run"
    assert path.stat().st_size < 500_000


@pytest.mark.parametrize("path", COURSE, ids=named)
def test_a_notebook_of_the_course_says_what_is_simulated_and_what_to_take_home(path: Path) -> None:
    texts = [cell["source"] for cell in cells(path, "markdown")]
    assert all(words in texts[0] for words in ("Afterwards you can", "minutes", "Simulated here", "With GPUs"))
    assert "## Take home" in texts[-1]
    assert any("Break it" in text for text in texts)


@pytest.mark.parametrize("path", COURSE, ids=named)
def test_every_exercise_has_a_folded_hint_and_a_solution_that_is_right(path: Path) -> None:
    solution = FOLDER / "solutions" / path.name
    asked = re.findall(r"teach\.(check_\w+)", "\n".join(cell["source"] for cell in cells(path, "code")))
    assert len(asked) == 3
    assert sum(text["source"].startswith("<details><summary>Hint") for text in cells(path, "markdown")) >= 3
    right = set()
    for cell in cells(solution, "code"):
        said = json.dumps(cell["outputs"])
        right |= {check for check in re.findall(r"teach\.(check_\w+)", cell["source"]) if '"Right.' in said}
    assert right == set(asked)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_pictures_of_the_course_carry_their_words(path: Path) -> None:
    for cell in cells(path, "code"):
        for output in cell["outputs"]:
            if "image/png" in output.get("data", {}) and "teach." in cell["source"]:
                assert output["metadata"]["image/png"]["alt"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=named)
def test_the_cells_are_linted(path: Path) -> None:
    code = cells(path, "code")
    known = [*ON_RANKS, *COLLECTED.findall("\n".join(cell["source"] for cell in code))]
    builtins = f"--config=builtins={json.dumps(known)}"
    whole = "\n\n".join(code_of(cell) for cell in code)
    assert not run("ruff", "check", *RUFF, builtins, "--stdin-filename=notebook.py", "-", text=whole)


def test_the_cells_of_the_course_are_formatted(tmp_path: Path) -> None:
    for path in (*COURSE, *SOLUTIONS):
        for cell in cells(path, "code"):
            (tmp_path / f"{path.parent.name}-{path.stem}-{cell['id']}.py").write_text(code_of(cell))
    assert not run("ruff", "format", "--check", "--line-length=130", str(tmp_path))


def test_the_texts_are_good_markdown(tmp_path: Path) -> None:
    for path in NOTEBOOKS:
        texts = "\n\n".join(cell["source"] for cell in cells(path, "markdown"))
        (tmp_path / f"{path.parent.name}-{path.stem}.md").write_text(texts + "\n")
    assert not run("pymarkdown", *MARKDOWN, str(tmp_path), str(ROOT / "docs" / "TEACHING.md"))


@pytest.mark.parametrize("path", [*NOTEBOOKS, ROOT / "docs" / "TEACHING.md"], ids=named)
def test_links_lead_somewhere(path: Path) -> None:
    text = "\n".join(cell["source"] for cell in cells(path, "markdown")) if path.suffix == ".ipynb" else path.read_text()
    for link in LINK.findall(text):
        assert "://" in link or (path.parent / link).exists(), link


def test_the_teaching_page_names_cells_that_exist() -> None:
    text = (ROOT / "docs" / "TEACHING.md").read_text()
    named_cells = re.findall(r"\]\(\.\./notebooks/(\S+?\.ipynb)\) \[(\d+)\]", text)
    assert len(named_cells) > 60
    for name, number in named_cells:
        assert int(number) <= len(cells(FOLDER / name, "code")), f"{name} has no cell [{number}]"


def test_notebooks_and_documents_are_spelled_right(tmp_path: Path) -> None:
    for path in NOTEBOOKS:
        (tmp_path / f"{path.parent.name}-{path.stem}.txt").write_text(
            "\n\n".join(cell["source"] for kind in ("markdown", "code") for cell in cells(path, kind))
        )
    assert not run("codespell_lib", *SPELLING, str(tmp_path), *map(str, DOCUMENTS))
