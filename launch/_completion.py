"""Shell code that completes `--config=` of `python -m launch.COMMAND`.

The names come from `launch.list --names` in the folder where one stands, once a shell and folder;
other words are completed as before.
"""

# Bash splits words at "=" and ":" and completes the part behind the last of these; zsh does not.
_BASH = r"""
_lsa_jax_complete() {
    local line=${COMP_LINE:0:COMP_POINT} name
    local word=${line##* }
    COMPREPLY=()
    [[ $line == *" -m launch."* && $word == --config=* ]] || return
    if [ "${_lsa_jax_folder-}" != "$PWD" ]; then
        _lsa_jax_known=$("${COMP_WORDS[0]}" -m launch.list --names 2>/dev/null)
        _lsa_jax_folder=$PWD
    fi
    local given=${word#--config=}
    local before=${given%"${given##*:}"}
    while IFS= read -r name; do
        [[ $name != "$given"* ]] || COMPREPLY+=("${name#"$before"}")
    done <<< "$_lsa_jax_known"
    compopt -o nospace 2>/dev/null
}
complete -o bashdefault -o default -F _lsa_jax_complete python python3
"""

_ZSH = r"""
_lsa_jax_complete() {
    if [[ "${words[*]}" != *" -m launch."* || $PREFIX != --config=* ]]; then
        if (( $+functions[_python] )); then _python "$@"; else _default "$@"; fi
        return
    fi
    if [[ "${_lsa_jax_folder-}" != "$PWD" ]]; then
        _lsa_jax_known=("${(@f)$(${words[1]} -m launch.list --names 2>/dev/null)}")
        _lsa_jax_folder=$PWD
    fi
    compset -P '--config='
    compadd -S '' -- "${_lsa_jax_known[@]}"
}
autoload -Uz compinit && (( $+functions[compdef] )) || compinit -u
autoload -Uz _python 2>/dev/null
compdef _lsa_jax_complete python python3
"""

_FISH = r"""
function __lsa_jax_names
    if test "$__lsa_jax_folder" != "$PWD"
        set -l words (commandline -opc)
        set -g __lsa_jax_known ($words[1] -m launch.list --names 2>/dev/null)
        set -g __lsa_jax_folder $PWD
    end
    printf '%s\n' $__lsa_jax_known
end
for python in python python3
    complete -c $python -n 'string match -q "* -m launch.*" -- (commandline -p)' \
        -l config -x -a '(__lsa_jax_names)'
end
"""

SHELLS = {"bash": _BASH.lstrip(), "zsh": _ZSH.lstrip(), "fish": _FISH.lstrip()}
