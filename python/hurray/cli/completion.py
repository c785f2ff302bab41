"""completion: a script for a shell, made of what arguments.py says.

    source <(hurray completion bash)         in ~/.bashrc
    source <(hurray completion zsh)          in ~/.zshrc, after compinit
    hurray completion fish | source          in ~/.config/fish/config.fish

After a file, the names of its tensors are completed for `cat` and `inspect`.
"""

from __future__ import annotations

import argparse
from argparse import Namespace

from . import OK
from .arguments import build_parser

_BASH = """\
_hurray() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} command='' file='' name i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${{COMP_WORDS[i]}} in
            -?*) ;;
            *) if [[ -z $command ]]; then command=${{COMP_WORDS[i]}}; else file=${{COMP_WORDS[i]}}; fi ;;
        esac
    done
    case $command in
        '') COMPREPLY=($(compgen -W '{commands} {options}' -- "$word")); return ;;
{cases}
    esac
    if [[ -n $file && ( $command == cat || $command == inspect ) ]]; then
        # Names are what a file says: matched and quoted, never expanded as `compgen -W` would.
        while IFS= read -r name; do
            [[ $name == "$word"* ]] && COMPREPLY+=("$(printf %q "$name")")
        done < <(hurray ls --names --members "${{file/#~\\//$HOME/}}" 2>/dev/null </dev/null)
        return
    fi
    compopt -o filenames 2>/dev/null
    while IFS= read -r name; do COMPREPLY+=("$name"); done < <(compgen -f -- "$word")
}}
complete -F _hurray hurray
"""

_BASH_CASE = """\
        {name})
            if [[ {test} ]]; then
                COMPREPLY=($(compgen -W '{words}' -- "$word"))
                return
            fi ;;"""


def completion(arguments: Namespace) -> int:
    """Prints the script."""
    commands = _commands(build_parser())
    if arguments.shell == "fish":
        print(_fish(commands), end="")
        return OK
    if arguments.shell == "zsh":
        print("autoload -U +X bashcompinit && bashcompinit")
    print(_bash(commands), end="")
    return OK


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return dict(action.choices)
    raise AssertionError("the parser has subcommands")


def _options(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [
        action
        for action in parser._actions
        if action.option_strings and action.help is not argparse.SUPPRESS
    ]


def _words(parser: argparse.ArgumentParser) -> str:
    """Every way to write every option."""
    return " ".join(word for action in _options(parser) for word in action.option_strings)


def _choices(parser: argparse.ArgumentParser) -> str:
    """What a positional argument can be, where that is a list."""
    listed = [a.choices for a in parser._actions if not a.option_strings and a.choices]
    return " ".join(str(choice) for choice in listed[0]) if listed else ""


def _bash(commands: dict[str, argparse.ArgumentParser]) -> str:
    cases = []
    for name, parser in commands.items():
        fixed = _choices(parser)
        test = '-n "$command"' if fixed else "$word == -*"
        words = " ".join(filter(None, [fixed, _words(parser)]))
        cases.append(_BASH_CASE.format(name=name, test=test, words=words))
    return _BASH.format(
        commands=" ".join(commands), options=_words(build_parser()), cases="\n".join(cases)
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _fish(commands: dict[str, argparse.ArgumentParser]) -> str:
    lines = []
    for name, parser in commands.items():
        summary = _quoted(str(parser.description))
        lines.append(f"complete -c hurray -n __fish_use_subcommand -f -a {name} -d {summary}")
        seen = f"-n '__fish_seen_subcommand_from {name}'"
        for action in _options(parser):
            flags = " ".join(
                f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}"
                for word in action.option_strings
            )
            takes = ""
            if action.choices:
                takes = f" -x -a {_quoted(' '.join(map(str, action.choices)))}"
            elif action.nargs != 0:
                takes = " -r"
            about = _quoted(str(action.help or ""))
            lines.append(f"complete -c hurray {seen} {flags}{takes} -d {about}")
        if fixed := _choices(parser):
            lines.append(f"complete -c hurray {seen} -f -a {_quoted(fixed)}")
    for name in ("cat", "inspect"):
        names = "(hurray ls --names --members (commandline -opc | string match -v -- '-*')[3] 2>/dev/null </dev/null)"
        lines.append(
            f"complete -c hurray -n '__fish_seen_subcommand_from {name}' -a {_quoted(names)}"
        )
    return "\n".join(lines) + "\n"
