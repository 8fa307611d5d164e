#!/usr/bin/env bash
# Runs a figure or table on a Cloud TPU VM, from the VM's creation to its deletion.
set -euo pipefail

usage() {
    cat <<'USAGE'
Usage: launch/tpu_vm.sh SUBCOMMAND --name=NAME --zone=ZONE [--project=PROJECT] [--dry_run] [FLAGS]

  create   --type=TYPE --version=VERSION [--spot]    makes the VM
  install  [--dataset=NAME]                          copies this project's last commit to the VM,
                                                     installs it with jax for TPU, fetches data
  run      --workdir=DIR --config=FILE [...]         starts launch.sweep; other flags go to it;
  fetch    --workdir=DIR [--to=DIR]                  shows the end of the log, copies DIR here
  delete                                             deletes the VM and its disk

--dry_run prints the commands and runs none of them. --workdir lies in the project's folder on the
VM, unless it is absolute; data that install fetches lie there in `data`. The sweep runs in the
background, so that a lost connection does not stop it; `run` with the same flags goes on from its
checkpoints, and does nothing on a host where the sweep still runs.

Example:
  vm="--name=lsa --zone=us-central1-a"
  launch/tpu_vm.sh create $vm --type=v5litepod-8 --version=v2-alpha-tpuv5-lite --spot
  launch/tpu_vm.sh install $vm --dataset=mnist
  launch/tpu_vm.sh run $vm --workdir=runs/fig6 --config=configs/lsa/fig6_mnist.py --data_dir=data
  launch/tpu_vm.sh fetch $vm --workdir=runs/fig6 --to=runs
  launch/tpu_vm.sh delete $vm
USAGE
}

fail() {
    echo "error: $*" >&2
    exit 2
}

# What a subcommand takes beside --name, --zone and --project; with a star what it must be given.
declare -A flags=([create]="type* version*" [install]="dataset" [run]="workdir* config*"
    [fetch]="workdir* to" [delete]="")
folder=lsa_jax_project # below the home folder of the VM
python=.venv/bin/python
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

declare -A given=()
sweep_flags=()
dry_run=

# Reads the command line into subcommand, given, sweep_flags and dry_run.
parse() {
    local argument name common="name zone project"
    for argument in "$@"; do
        if [[ $argument == --help || $argument == -h ]]; then usage && exit 0; fi
    done
    subcommand=${1:-}
    [[ -n $subcommand && -v flags[$subcommand] ]] ||
        fail "the subcommand is '$subcommand'; accepted: create, install, run, fetch, delete"
    for argument in "${@:2}"; do
        name=${argument%%=*} && name=${name#--}
        if [[ $argument == --dry_run ]]; then
            dry_run=yes
        elif [[ $argument == --spot && $subcommand == create ]]; then
            given[spot]=yes
        elif [[ $argument == --*=?* && " $common ${flags[$subcommand]//\*/} " == *" $name "* ]]; then
            given[$name]=${argument#*=}
        elif [[ $argument == --* && $subcommand == run ]]; then
            sweep_flags+=("$argument")
        else
            fail "$subcommand does not take '$argument'; see launch/tpu_vm.sh --help"
        fi
    done
    shopt -s extglob
    if [[ -n ${given[workdir]:-} ]]; then given[workdir]=${given[workdir]%%+(/)}; fi
    for name in name* zone* ${flags[$subcommand]}; do
        [[ $name != *\* || -n ${given[${name%\*}]:-} ]] ||
            fail "--${name%\*} is missing; see launch/tpu_vm.sh --help"
    done
    [[ -n $dry_run ]] || command -v gcloud >/dev/null ||
        fail "gcloud is not on the PATH; cloud.google.com/sdk says how to install it"
}

# Runs a command, or prints it as a shell would read it.
do_or_print() {
    local word line=()
    if [[ -z $dry_run ]]; then
        "$@"
        return
    fi
    for word in "$@"; do
        if [[ ! $word =~ ^[A-Za-z0-9_./:=,@+-]+$ ]]; then word=${word@Q}; fi
        line+=("$word")
    done
    echo "${line[*]}"
}

# Runs a subcommand of gcloud on the VM.
tpu_vm() {
    local project=()
    if [[ -n ${given[project]:-} ]]; then project=("--project=${given[project]}"); fi
    do_or_print gcloud compute tpus tpu-vm "$@" "--zone=${given[zone]}" "${project[@]}"
}

# Runs shell code on all hosts of the VM, in the project's folder.
on_all_hosts() {
    tpu_vm ssh "${given[name]}" --worker=all "--command=cd $folder && $1"
}

create() {
    local spot=()
    if [[ -n ${given[spot]:-} ]]; then spot=(--spot); fi
    tpu_vm create "${given[name]}" "--accelerator-type=${given[type]}" \
        "--version=${given[version]}" "${spot[@]}"
}

install() {
    local archive=$folder.tar.gz
    do_or_print git -C "$here" archive --prefix="$folder/" --output="/tmp/$archive" HEAD
    tpu_vm scp "/tmp/$archive" "${given[name]}:$archive" --worker=all
    tpu_vm ssh "${given[name]}" --worker=all "--command=tar -xzf $archive"
    # A VM's own Python may be older than the one that is needed; uv brings one along.
    on_all_hosts "curl -LsSf https://astral.sh/uv/install.sh | sh && \
~/.local/bin/uv venv --allow-existing --python=3.12 && ~/.local/bin/uv pip install -e '.[tpu]'"
    if [[ -n ${given[dataset]:-} ]]; then
        on_all_hosts "$python -m launch.data --dataset=${given[dataset]@Q} --data_dir=data"
    fi
}

run() {
    local command log
    log=${given[workdir]}.log && log=${log@Q}
    printf -v command '%q ' "$python" -u -m launch.sweep "--config=${given[config]}" \
        "--workdir=${given[workdir]}" "${sweep_flags[@]}"
    # The lock, a host's own, because a second process of a sweep on several hosts would end them all.
    on_all_hosts "mkdir -p \$(dirname $log) && { flock -n $log.lock true || \
echo 'the sweep still runs here; nothing is started'; } && \
{ nohup flock -n $log.lock $command>> $log 2>&1 < /dev/null & } && sleep 10 && tail -n 5 $log"
}

fetch() {
    local source=${given[workdir]} log
    if [[ $source != /* ]]; then source=$folder/$source; fi
    log=$source.log
    tpu_vm ssh "${given[name]}" --worker=0 "--command=tail -n 5 ${log@Q}"
    do_or_print mkdir -p "${given[to]:-.}"
    tpu_vm scp --recurse "${given[name]}:$source" "${given[to]:-.}" --worker=0
}

delete() {
    tpu_vm delete "${given[name]}" --quiet
}

parse "$@"
"$subcommand"
