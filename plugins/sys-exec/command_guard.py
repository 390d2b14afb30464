"""Finds the arguments of a command that must not contain placeholders.

A value from a payload may only ever be data. It must not become code for a shell or another interpreter, an option,
or the program itself, even behind a wrapper such as `env` or `timeout`.
"""

from __future__ import annotations

import os
import re
import shlex

# `${NAME}` is a variable of a shell and not a placeholder where nothing is filled in.
_CODE_PLACEHOLDER = re.compile(r"(?<!\$)\{[A-Za-z_][A-Za-z0-9_]*\}")
_OPTION_PLACEHOLDER = re.compile(r"-+\{[A-Za-z_][A-Za-z0-9_]*\}")
_SHELLS = set("sh ash bash rbash dash ksh mksh oksh pdksh zsh fish csh tcsh yash posh xonsh elvish nu".split())
# Options of a shell whose argument is the next one.
_SHELL_ARGUMENT = {"--rcfile", "--init-file", "--init-command", "--features", "--debug-output", "--profile"}


class _Interpreter:
    """How a program gets its code: `code` matches an option with code in it or after it."""

    def __init__(self, code, argument="", stops=False, has_file=True, scans_all=False, verbs=""):
        self._code = code
        # Words that may come first and say what to do with the rest.
        self.verbs = set(verbs.split())
        # Options that are not code and whose argument is the next one.
        self.argument = set(argument.split())
        # What follows the code is for the code.
        self.stops = stops
        # Without such an option, the first argument is the code or the file that holds it.
        self.has_file = has_file
        # Such an option may also follow other arguments.
        self.scans_all = scans_all

    def match_code(self, text):
        return re.fullmatch(self._code, text, re.DOTALL)


_PERL = _Interpreter(r"-[A-Za-z0-9]*[eE](.*)", "-I -C -r")
_NODE_CODE = r"(?:-e|-p|-pe|--eval|--print)(?:=(.*))?"
_NODE_ARGUMENT = ("-r --require --import --preload --loader --experimental-loader -C --conditions")
_NODE = _Interpreter(_NODE_CODE, _NODE_ARGUMENT)
_DENO = _Interpreter(_NODE_CODE, _NODE_ARGUMENT, verbs="eval exec run x")
_AWK = _Interpreter(r"(?:-[ef]|--source|--file|--include|-i)(?:=(.*))?", "-F -v --assign --field-separator")
_EVAL = _Interpreter(r"(?:-e|-E|-c|--?eval|--print|-ex|--cmd|--command|--eval-command)(?:=(.*))?")
_COMMAND = _Interpreter(r"(?:-[A-Za-z]*c[A-Za-z]*|--command|--session-command)(?:=(.*))?",
                        has_file=False, scans_all=True)
# Programs with options that start another one.
_STARTERS = {
    "find": r"-(?:exec|ok)(?:dir)?",
    "tar": r"(?:-I|-F|--use-compress-program|--to-command|--checkpoint-action|--rsh-command|--info-script)(?:=(.*))?",
    "rsync": r"(?:-[A-Za-z]*e|--rsh|--rsync-path)(?:=(.*))?",
    "make": r"--eval(?:=(.*))?",
}
_SQL = _Interpreter(r"(?:-c|-e|--command|--execute)(?:=(.*))?", has_file=False, scans_all=True)

_INTERPRETERS = {
    "python": _Interpreter(r"-[bBdEhiIOPqRsStuvVx?]*[cm](.*)", "-W -X --check-hash-based-pycs", stops=True),
    "perl": _PERL, "ruby": _PERL, "raku": _PERL,
    "node": _NODE, "nodejs": _NODE, "bun": _DENO, "deno": _DENO,
    "php": _Interpreter(r"(?:-[rBRE]|--run|--process-begin|--process-code|--process-end)(?:=(.*))?",
                        "-c -d -z -t -S"),
    "sed": _Interpreter(r"(?:-[A-Za-z]*[ef]|--expression|--file)(?:=(.*))?", "-l --line-length", scans_all=True),
    "awk": _AWK, "gawk": _AWK, "mawk": _AWK, "nawk": _AWK,
    "su": _COMMAND, "runuser": _COMMAND, "script": _COMMAND, "flock": _COMMAND,
    "psql": _SQL, "mysql": _SQL, "mariadb": _SQL,
    "pwsh": _Interpreter(r"(?i:-(?:c|command|e|ec|encodedcommand|f|file))", stops=True),
    "cmd": _Interpreter(r"(?i:/[ckr])", stops=True),
}
_INTERPRETERS["git"] = _Interpreter(r"(?:-c|--exec-path|--config-env)(?:=(.*))?", "-C", has_file=False)
_INTERPRETERS.update({name: _Interpreter(code, has_file=False, scans_all=True) for name, code in _STARTERS.items()})
_INTERPRETERS["pypy"] = _INTERPRETERS["python"]
_INTERPRETERS["powershell"] = _INTERPRETERS["pwsh"]
_INTERPRETERS.update({name: _EVAL for name in (
    "lua luajit osascript rscript r julia elixir erl groovy scala expect guile racket sbcl emacs vim nvim vi ex gdb"
).split()})

# Programs that start another one: how many arguments come before it, and which options have an argument.
_WRAPPERS = {
    "env": (0, "-u --unset -C --chdir -S --split-string"),
    "sudo": (0, "-u -g -h -p -C -r -t -T -U -D -R --user --group --host --prompt --chdir --chroot --role --type"),
    "doas": (0, "-u -C"),
    "nice": (0, "-n --adjustment"),
    "timeout": (1, "-k -s --kill-after --signal"),
    "xargs": (0, "-a -d -E -I -L -n -P -s --arg-file --delimiter --max-args --max-lines --max-procs --replace"),
    "stdbuf": (0, "-i -o -e --input --output --error"),
    "ionice": (0, "-c -n --class --classdata"),
    "time": (0, "-f -o --format --output"),
    "chroot": (1, "--userspec --groups"),
    "taskset": (1, ""),
    "chrt": (1, ""),
    "setpriv": (0, ""),
    "systemd-run": (0, "-u -p -E -M -H --unit --property --setenv --uid --gid --description --slice"),
    "strace": (0, "-o -e -p -s -u"),
}
_WRAPPERS.update({name: (0, "") for name in (
    "nohup setsid busybox toybox unshare nsenter eatmydata command exec"
).split()})
# Programs that hand their arguments to a shell, all of them.
_JOINERS = set("watch parallel tmux screen eval".split())
_SSH_ARGUMENT = set("-B -b -c -D -E -e -F -I -i -J -L -l -m -O -o -p -Q -R -S -W -w".split())


class Guarded:
    """Which arguments are fixed, by their index, and why."""

    def __init__(self, argv):
        # With the index that each argument has in the command: `env -S` splits one into several.
        self._parts = _split(argv)
        self.fixed = {}
        self.starts_shell = False
        program = self._skip_wrappers()
        for at in range(len(self._parts)):
            self._check_program(at, at == program)

    def _mark(self, at, why):
        if at < len(self._parts):
            self.fixed.setdefault(self._parts[at][1], why)

    def _text(self, at):
        return self._parts[at][0] if at < len(self._parts) else ""

    def _is_option(self, at):
        return len(self._text(at)) > 1 and self._text(at)[0] in "-+"

    def _skip_wrappers(self):
        """Marks everything up to the program that runs in the end, and returns its index."""
        at, names = 0, []
        while _name_of(self._text(at)) in _WRAPPERS:
            names.append(_name_of(self._text(at)))
            before, with_argument = _WRAPPERS[names[-1]]
            self._mark(at, _before(names[-1]))
            at += 1
            left = before
            while at < len(self._parts):
                text = self._text(at)
                is_variable = names[-1] in ("env", "sudo") and re.match(r"[^-/=]+=", text) is not None
                if not self._is_option(at) and not is_variable:
                    if left == 0:
                        break
                    left -= 1
                self._mark(at, _before(names[-1]))
                at += 1
                if text in with_argument.split():
                    self._mark(at, _before(names[-1]))
                    at += 1
                if text == "--" and left == 0:
                    break
        if at > 0:
            self._mark(at, _before(names[-1]))
        return at

    def _check_program(self, at, is_program):
        name = _name_of(self._text(at))
        if name in _SHELLS:
            self._check_shell(at, is_program)
        elif name in _INTERPRETERS:
            self._check_interpreter(at, _INTERPRETERS[name], name, is_program)
        elif is_program and name == "ssh":
            self._check_ssh(at)
        elif is_program and name in _JOINERS and not {"-x", "--exec"} & {text for text, _ in self._parts}:
            for rest in range(at + 1, len(self._parts)):
                self._mark(rest, f"{name} hands its arguments to a shell")

    def _check_shell(self, at, is_program):
        """The script is what follows the options; with a `c` among them it is code, otherwise a file."""
        first, has_code = at, False
        at += 1
        while self._is_option(at) and self._text(at) != "--":
            cluster = "" if self._text(at).startswith("--") else self._text(at)
            has_code = has_code or (cluster.startswith("-") and "c" in cluster)
            has_code = has_code or self._text(at).startswith("--command")
            # `-o` and `-O` have an argument each, which comes before the script.
            at += 1 + cluster.count("o") + cluster.count("O") + (self._text(at) in _SHELL_ARGUMENT)
        at += self._text(at) in ("--", "-")
        if has_code or is_program:
            why = "a shell script cannot contain placeholders; pass them after it as $1, $2"
            for index in range(first, at + 1):
                self._mark(index, why)
        self.starts_shell = self.starts_shell or (has_code and is_program)

    def _check_interpreter(self, at, interpreter, name, is_program):
        why = f"code for {name} cannot contain placeholders; pass them after it as arguments"
        has_code, stops, marks = False, False, [at]
        at += 1
        if self._text(at) in interpreter.verbs:
            marks.append(at)
            at += 1
        while at < len(self._parts) and not stops and self._text(at) != "--":
            code = interpreter.match_code(self._text(at))
            if code is None and not self._is_option(at):
                break
            marks.append(at)
            if code is not None:
                has_code, stops = True, interpreter.stops
            is_attached = code is not None and any(group for group in code.groups())
            if (code is not None and not is_attached) or self._text(at) in interpreter.argument:
                at += 1
                if code is not None or self._text(at - 1) not in ("-v", "--assign"):
                    marks.append(at)
            at += 1
        if is_program and interpreter.has_file and not has_code:
            marks += range(at, at + 1 + (self._text(at) == "--"))
        if interpreter.scans_all:
            marks += [near for rest in range(at, len(self._parts)) if interpreter.match_code(self._text(rest))
                      for near in (rest, rest + 1)]
            has_code = has_code or len(marks) > 1
        for index in marks if is_program or has_code else ():
            self._mark(index, why)

    def _check_ssh(self, at):
        """Only the host may be a value: everything after it is text for the shell over there."""
        at += 1
        while self._is_option(at):
            self._mark(at, _SSH)
            if self._text(at) in _SSH_ARGUMENT:
                at += 1
                self._mark(at, _SSH)
            at += 1
        for rest in range(at + 1, len(self._parts)):
            self._mark(rest, _SSH)


_SSH = "ssh hands its options and the remote command to a shell, so only the host can be a placeholder"


def find_fault(argv, guarded):
    """Why a command cannot be filled in safely, or None."""
    for at, part in enumerate(argv):
        if _OPTION_PLACEHOLDER.match(part):
            return f"{part!r}: a placeholder cannot be the name of an option"
        if at in guarded.fixed and _CODE_PLACEHOLDER.search(part):
            return guarded.fixed[at]
    return None


def _split(argv):
    parts = []
    for index, part in enumerate(argv):
        before = argv[index - 1] if index > 0 else ""
        text = None
        if _name_of(argv[0]) == "env":
            attached = re.fullmatch(r"(?:-S|--split-string=)(.+)", part, re.DOTALL)
            text = attached[1] if attached else part if before in ("-S", "--split-string") else None
        if text is None:
            parts.append((part, index))
            continue
        try:
            words = shlex.split(text)
        except ValueError:
            words = [text]
        parts += [(word, index) for word in words]
    return [(text, index) for text, index in parts if text not in ("-S", "--split-string")]


def _name_of(text):
    """`/usr/bin/python3.11` is `python`; `ksh93` is `ksh`."""
    name = os.path.basename(text).lower()
    name = name[:-4] if name.endswith(".exe") else name
    return re.sub(r"-?[0-9][0-9.]*$", "", name)


def _before(wrapper):
    return f"placeholders cannot come before the program that {wrapper} starts, nor be that program"
