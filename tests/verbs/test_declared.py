"""A verb is declared once: its function's signature and docstring are the command, the completion and the page."""

from __future__ import annotations

import inspect
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.support.helpers import python

import tfsmith
from tfsmith.cli.common import spelled
from tfsmith.cli.main import arguments_of, main, make_parser, parser_of
from tfsmith.errors import OutputError, worded
from tfsmith.testing.models import bert_classifier
from tfsmith.testing.write import write_checkpoint_files
from tfsmith.verbs import VERBS
from tfsmith.verbs._declare import WITHOUT_FLAG, Verb, flag_of, read_docstring, read_verb
from tfsmith.verbs._shared import DEFAULTS, GROUP_OF, Result, Shared
from tfsmith.verbs.completion import completion

DECLARED = {name: read_verb(name, home) for name, (home, _) in VERBS.items() if home}
OF_THE_COMMAND = {"-h", "--help", "--json", "--debug"}
SIGNATURE_FLAGS = {"--input", "--output"}
TWO_FORMS = {
    "--signature": "the key of a signature: one that is there, or one that is made and may be followed by others",
    "--outputs": "show lists the outputs that all others take by name",
    "--verify": "show takes it for --checksums, as it always did; view takes the model to verify with",
    "--inputs": "what is fed to a run; convert takes the inner tensors that are to be inputs of the ONNX model",
    "--only": "which variables, by globs; of a diff, which sections",
    "--output": "verify takes it for --outputs, all others for --out",
    "--op": "the op of a new node, or the ops of nodes to configure",
}


@pytest.fixture(params=DECLARED)
def verb(request: pytest.FixtureRequest) -> Verb:
    return DECLARED[request.param]


def python_arguments(verb: Verb) -> dict[str, inspect.Parameter]:
    """The arguments as Python itself sees them, those of the shared options among them."""
    found = dict(inspect.signature(verb.function).parameters)
    rest = [name for name, one in found.items() if one.kind is one.VAR_KEYWORD]
    for name in rest:
        group = found.pop(name).annotation.removeprefix("Unpack[").removesuffix("]")
        for shared in vars(__import__("tfsmith.verbs._shared", fromlist=[group]))[group].__annotations__:
            found[shared] = inspect.Parameter(shared, inspect.Parameter.KEYWORD_ONLY, default=DEFAULTS.get(shared))
    return found


def test_every_file_is_a_verb_or_says_that_it_is_none() -> None:
    folder = Path(tfsmith.__file__).with_name("verbs")
    files = {path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")}
    assert files == {home.partition(".")[0] for home, _ in VERBS.values() if home}


def test_no_flag_lacks_its_argument_and_no_argument_its_flag(verb: Verb) -> None:
    parser = make_parser(verb)
    by_dest: dict[str, set[str]] = {}
    for action in parser._actions:
        by_dest.setdefault(action.dest, set()).update(action.option_strings)
    typed = {name for name, flags in by_dest.items() if not flags & OF_THE_COMMAND}
    arguments = python_arguments(verb)
    without = {option.name for option in verb.options if option.kind in WITHOUT_FLAG}
    assert typed == set(arguments) - without
    if without - {"progress", "serve"}:  # the short form of signatures in Python
        assert any(by_dest[option.name] >= SIGNATURE_FLAGS for option in verb.options if option.kind == "Signatures")
    for option in verb.options:
        default = arguments[option.name].default
        assert option.default == (None if default is inspect.Parameter.empty else default), option.name


def test_every_option_is_explained_and_every_verb_has_an_example(verb: Verb) -> None:
    for action in make_parser(verb)._actions:
        assert action.help, action.dest
    for option in verb.options:
        assert option.help, option.name
    assert verb.doc.summary.endswith(".")
    assert re.search(rf"\btfsmith {verb.name}\b", verb.doc.example)


def test_examples_of_the_help_can_be_parsed(verb: Verb) -> None:
    import shlex

    for line in verb.doc.example.splitlines():
        words = shlex.split(line.partition(" > ")[0])
        if words[:1] != ["tfsmith"]:
            continue
        parsed = make_parser(verb).parse_args(words[1 + len(verb.name.split()) :])
        assert set(arguments_of(verb, parsed)) <= set(python_arguments(verb))


def test_one_meaning_for_every_option() -> None:
    """An option of the same name takes the same kind of value in all verbs, and shared ones are explained once."""
    kinds: dict[str, set[str]] = {}
    for verb in DECLARED.values():
        for option in verb.options:
            for flag in option.flags:
                kinds.setdefault(flag, set()).add(f"{option.name}: {option.kind}")
    several = {flag: found for flag, found in kinds.items() if len(found) > 1 and flag not in TWO_FORMS}
    assert several == {}, several
    assert set(read_docstring(Shared.__doc__ or "").arguments) == set(GROUP_OF)


def test_results_have_one_form(tmp_path: Path) -> None:
    """A path or a Model; a record with a model, notes, a truth value, text and JSON, that can be saved."""
    prefix = write_checkpoint_files(bert_classifier(), tmp_path)
    for source in (prefix, tfsmith.load(prefix)):
        frozen = tfsmith.freeze(source, outputs=["loss/output"])
        assert isinstance(frozen, Result)
        assert frozen
        assert str(frozen) == "Converted 41 variables to const ops.\noutput loss/output:0\n"
        assert frozen.to_json()["output"] is None
        assert frozen.source.variables
        assert frozen.notes == ()
    written = frozen.save(tmp_path / "frozen.pb")
    assert written.out == tmp_path / "frozen.pb"
    assert written.to_json()["output"] == str(tmp_path / "frozen.pb")
    tfsmith.save(frozen, tmp_path / "other.pb")
    assert (tmp_path / "other.pb").read_bytes() == (tmp_path / "frozen.pb").read_bytes()
    with pytest.raises(OutputError, match=r"exists already; choose another, or pass force=True"):
        frozen.save(tmp_path / "frozen.pb")
    assert frozen.save(tmp_path / "frozen.pb", force=True)
    assert tfsmith.thaw(frozen).model.variables


def test_errors_name_options_as_the_door_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prefix = write_checkpoint_files(bert_classifier(), tmp_path)
    words = ["freeze", str(prefix), "-o", str(tmp_path / "f.pb"), "--outputs", "loss/output"]
    assert main(words) == 0
    assert main(words) == 2
    assert "exists already; choose another, or pass --force" in capsys.readouterr().err
    text = "pass {force=True}, {min_elements=0}, {as_='saved_model'} or {checkpoint}; not {\"a\": 1}"
    assert worded(text) == "pass force=True, min_elements=0, as_='saved_model' or checkpoint=; not {\"a\": 1}"
    assert worded(text, spelled) == 'pass --force, --min-elements 0, --as saved_model or --checkpoint; not {"a": 1}'


def test_what_was_not_typed_is_left_to_python() -> None:
    verb = DECLARED["freeze"]
    words = [
        "m",
        "-o",
        "f.pb",
        "--outputs",
        "a, b",
        "--only",
        "x*",
        "--only",
        "y",
        "--input-shape",
        "x=1,?",
        "--no-inline",
    ]
    found = arguments_of(verb, make_parser(verb).parse_args(words))
    assert found == {
        "model": "m",
        "out": "f.pb",
        "outputs": ("a", "b"),
        "only": ("x*", "y"),
        "input_shapes": {"x": (1, None)},
        "inline": False,
    }


def test_names_are_singular_in_the_command() -> None:
    assert flag_of("op_libraries", "Many") == "--op-library"
    assert flag_of("input_shapes", "Shapes") == "--input-shape"
    assert flag_of("outputs", "Names") == "--outputs"
    assert flag_of("excluded", "Globs") == "--except"
    assert flag_of("as_") == "--as"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["frezee", "x"], "there is no verb 'frezee' (did you mean freeze?); `tfsmith --help`"),
        (["freeze", "x", "--outpts", "a"], "there is no option --outpts (did you mean --outputs?)"),
        (["show", "x", "--nods=1"], "there is no option --nods (did you mean --nodes?); `tfsmith show --help`"),
        (["show", "x", "--qqqqqqqqqq"], "there is no option --qqqqqqqqqq; `tfsmith show --help`"),
    ],
)
def test_did_you_mean(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert said in capsys.readouterr().err


def bash_completes(*words: str) -> set[str]:
    quoted = " ".join(f"'{word}'" for word in words)
    typed = f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}"
    script = f'{completion("bash").text}{typed}; _tfsmith; echo "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert not done.stderr
    return set(done.stdout.split())


def test_bash_completes_verbs_options_and_values() -> None:
    assert {name.partition(" ")[0] for name in DECLARED} <= bash_completes("tfsmith", "")
    assert bash_completes("tfsmith", "fre") == {"freeze"}
    assert bash_completes("tfsmith", "freeze", "m.meta", "--out") == {"--out", "--outputs", "--output"}
    assert bash_completes("tfsmith", "freeze", "--as", "") == {"pb", "pbtxt", "saved_model"}
    assert bash_completes("tfsmith", "convert", "m", "--dtype", "b") == {"bfloat16"}
    assert bash_completes("tfsmith", "completion", "z") == {"zsh"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_has_every_flag(shell: Any, verb: Verb, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for option in verb.options:
        for flag in option.flags:
            word = flag if shell != "fish" else f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
            assert f"{word} " in script or f"{word})" in script, flag


def test_the_public_names_are_written_once() -> None:
    """`__init__.pyi` is the table; each line is the one place of a name, and each name is there."""
    table = (Path(tfsmith.__file__).parent / "__init__.pyi").read_text()
    names = re.findall(r"^from \S+ import (\w+) as (\w+)$", table, re.MULTILINE)
    assert all(one == other for one, other in names)
    assert len({one for one, _ in names}) == len(names) == len(re.findall(r"^from ", table, re.MULTILINE))
    assert set(tfsmith.__all__) | {"bert_op"} == {one for one, _ in names}
    for name in tfsmith.__all__:
        assert getattr(tfsmith, name) is not None


def test_help_imports_no_verb() -> None:
    code = "import sys; from tfsmith.cli.main import main; main(['--help']); print(*sorted(sys.modules))"
    loaded = python("-c", code).stdout.split()
    homes = {f"tfsmith.verbs.{home.rpartition('.')[0]}" for home, _ in VERBS.values() if home}
    assert not homes & set(loaded)
    assert "tfsmith.verbs" in loaded


def test_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    for name in DECLARED:
        text = parser_of(name).format_help()
        assert text.startswith(f"usage: tfsmith {name} ")
    assert main(["--help"]) == 0
    listed = capsys.readouterr().out
    assert all(f"    {name}" in listed for name in VERBS if " " not in name)
