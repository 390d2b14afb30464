import { DuctileError } from '../base/errors.ts';

/** Returns the completion script of a shell; each script calls the hidden `__complete`. */
export function completionScript(shell: string): string {
  const script = Object.entries(scripts).find(([name]) => name === shell)?.[1];
  if (script !== undefined) return script;
  throw new DuctileError('INPUT_INVALID', `there is no completion for ${shell}`, {
    place: 'shell',
    hint: 'Use bash, zsh or fish.',
  });
}

/** Line of `__complete` that requests file names. */
export const FILES = ':files';

// Bash ends a word at a colon or an equals sign, and expects only the part after it.
const bash = `# Bash completion for ductile: source <(ductile completion bash)
_ductile() {
  local line value current prefix
  local words=("\${COMP_WORDS[@]:1:COMP_CWORD}")
  if [[ \${COMP_WORDBREAKS} == *:* || \${COMP_WORDBREAKS} == *=* ]]; then
    local text="\${COMP_LINE:0:COMP_POINT}"
    read -r -a words <<<"$text"
    words=("\${words[@]:1}")
    [[ $text == *[[:space:]] ]] && words+=("")
  fi
  current="\${words[\${#words[@]}-1]}"
  prefix="\${current%"\${current##*[:=]}"}"
  COMPREPLY=()
  while IFS= read -r line; do
    if [[ $line == ${FILES} ]]; then
      compopt -o default 2>/dev/null
      continue
    fi
    value="\${line%%$'\\t'*}"
    COMPREPLY+=("\${value#"$prefix"}")
  done < <("\${COMP_WORDS[0]}" __complete -- "\${words[@]}" 2>/dev/null)
}
complete -F _ductile ductile
`;

const zsh = `#compdef ductile
# Zsh completion for ductile: source <(ductile completion zsh)
_ductile() {
  local line value files=0
  local -a values
  while IFS= read -r line; do
    if [[ $line == ${FILES} ]]; then
      files=1
      continue
    fi
    value="\${\${line%%$'\\t'*}//:/\\\\:}"
    [[ $line == *$'\\t'* ]] && value="$value:\${line#*$'\\t'}"
    values+=("$value")
  done < <("\${words[1]}" __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)
  (( \${#values} )) && _describe -V ductile values
  (( files )) && _files
}
compdef _ductile ductile
`;

const fish = `# Fish completion for ductile: ductile completion fish | source
function __ductile_complete
  set -l words (commandline -opc)
  set -l current (commandline -ct)
  for line in ($words[1] __complete -- $words[2..-1] "$current" 2>/dev/null)
    if test "$line" = '${FILES}'
      __fish_complete_path "$current"
    else
      echo -- $line
    end
  end
end
complete -c ductile -f -a '(__ductile_complete)'
`;

const scripts = { bash, zsh, fish };
