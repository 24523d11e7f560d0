"""`tfsmith completion SHELL`: what makes a shell complete verbs, options and their values, made from the verbs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

from tfsmith.records import record
from tfsmith.verbs import VERBS
from tfsmith.verbs._declare import Option, Verb, checked, read_verb
from tfsmith.verbs._shared import Result

__all__ = ["CompletionScript", "completion"]


@record
class CompletionScript(Result):
    """The script for a shell.

    Attributes:
        shell: Which shell.
        text: The script.
        notes: None.
    """

    shell: str
    text: str
    notes: tuple[str, ...] = ()

    def report(self) -> Iterator[str]:
        """The script's lines."""
        yield from self.text.splitlines()

    def to_json(self) -> dict[str, Any]:
        """The shell and the script."""
        return {"shell": self.shell, "script": self.text}


@checked
def completion(shell: Literal["bash", "zsh", "fish"]) -> CompletionScript:
    """Prints what makes a shell complete verbs, options and their values.

    Args:
        shell: The shell that you use.

    Returns:
        The script. For bash and zsh, put `eval "$(tfsmith completion bash)"` into what the shell runs at its start.

    Example:
        eval "$(tfsmith completion bash)"
        tfsmith completion fish > ~/.config/fish/completions/tfsmith.fish
    """
    verbs = [read_verb(name, home) for name, (home, _) in VERBS.items() if home]
    return CompletionScript(shell, _SCRIPTS[shell](verbs))


def _first_words(verbs: Sequence[Verb]) -> list[str]:
    return list(dict.fromkeys(verb.name.partition(" ")[0] for verb in verbs))


def _flags(verb: Verb) -> list[str]:
    own = [flag for option in verb.options for flag in option.flags]
    both = [f"--no-{option.flags[0][2:]}" for option in verb.options if option.kind == "bool" and option.is_optional]
    return [*own, *both, *_signature_flags(verb), "--json", "--debug", "--help"]


def _signature_flags(verb: Verb) -> tuple[str, ...]:
    return ("--input", "--output") if any(option.kind == "Signatures" for option in verb.options) else ()


def _choices(verb: Verb) -> Iterator[tuple[str, Option]]:
    """The flags whose values are a short list."""
    for option in verb.options:
        for flag in option.flags:
            if option.choices:
                yield flag, option


def _cases(verbs: Sequence[Verb], say: Callable[[Sequence[str]], str]) -> Iterator[str]:
    """A shell's `case` over what was typed so far: "VERB ... PREVIOUS "; values first, then flags, then actions."""
    for verb in verbs:
        first, _, action = verb.name.partition(" ")
        start = f"'{first} {action} '" if action else f"'{first} '"
        for flag, option in _choices(verb):
            yield f"    {start}*'{flag} ') {say(option.choices)} ;;"
        by_place = [choice for option in verb.options if not option.flags for choice in option.choices]
        yield f"    {start}*) {say([*by_place, *_flags(verb)])} ;;"
    for first in _first_words(verbs):
        actions = [verb.name.partition(" ")[2] for verb in verbs if verb.name.startswith(f"{first} ")]
        if actions:
            yield f"    '{first} '*) {say(actions)} ;;"


def _bash(verbs: Sequence[Verb]) -> str:
    cases = "\n".join(_cases(verbs, lambda words: f'words="{" ".join(words)}"'))
    return f"""\
_tfsmith() {{
  local cur="${{COMP_WORDS[COMP_CWORD]}}" before="${{COMP_WORDS[*]:1:COMP_CWORD-1}}" words=""
  case "$before " in
    ' ') words="{" ".join([*_first_words(verbs), "--help", "--version"])}" ;;
{cases}
  esac
  COMPREPLY=( $(compgen -W "$words" -- "$cur") )
}}
complete -o bashdefault -o default -F _tfsmith tfsmith
"""


def _zsh(verbs: Sequence[Verb]) -> str:
    cases = "\n".join(_cases(verbs, lambda words: f"found=({' '.join(words)})"))
    lines = " ".join(_quoted(f"{name}:{line}") for name, (_, line) in VERBS.items() if " " not in name)
    return f"""\
#compdef tfsmith
_tfsmith() {{
  local before="${{(j: :)words[2,CURRENT-1]}}"
  local -a found verbs
  if (( CURRENT == 2 )); then
    verbs=({lines})
    _describe 'verb' verbs
    return
  fi
  case "$before " in
{cases}
  esac
  compadd -- $found
  [[ "$PREFIX" == -* ]] || _files
}}
compdef _tfsmith tfsmith
"""


def _fish(verbs: Sequence[Verb]) -> str:
    lines = [
        f"complete -c tfsmith -n __fish_use_subcommand -f -a {name} -d {_quoted(line)}"
        for name, (_, line) in VERBS.items()
        if " " not in name
    ]
    for verb in verbs:
        first, _, action = verb.name.partition(" ")
        seen = f"__fish_seen_subcommand_from {first}"
        if action:
            lines.append(f"complete -c tfsmith -n '{seen}' -f -a {action} -d {_quoted(VERBS[verb.name][1])}")
            seen += f"; and __fish_seen_subcommand_from {action}"
        lines += [f"complete -c tfsmith -n '{seen}' {words}" for words in _fish_options(verb)]
    return "\n".join(lines) + "\n"


def _fish_options(verb: Verb) -> Iterator[str]:
    for option in verb.options:
        values = f" -x -a '{' '.join(option.choices)}'" if option.choices else "" if option.kind == "bool" else " -r"
        flags = " ".join(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags)
        if flags:
            yield f"{flags}{values} -d {_quoted(option.help.partition('. ')[0].rstrip('.'))}"
        elif option.choices:
            yield f"-f -a '{' '.join(option.choices)}'"
    yield from (f"-l {flag[2:]}" for flag in (*_signature_flags(verb), "--json", "--debug", "--help"))


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "'\\''") + "'"


_SCRIPTS: Mapping[str, Callable[[Sequence[Verb]], str]] = MappingProxyType({"bash": _bash, "zsh": _zsh, "fish": _fish})
