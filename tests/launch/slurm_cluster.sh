#!/usr/bin/env bash
# A SLURM of one node on this machine, in a folder of its own, for the tests of launch.slurm.
#
#   slurm_cluster.sh start DIR    starts munged, slurmctld, slurmd; set SLURM_CONF=DIR/slurm.conf
#   slurm_cluster.sh stop DIR     stops them, with their jobs
#
# Needs Debian's packages slurm-wlm and munge, and root. Nothing outside DIR is read or written, and
# a SLURM that runs on the machine already is left alone: sockets, ports and keys are others.
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"
action=${1:?usage: slurm_cluster.sh start|stop DIR}
dir=$(realpath -m "${2:?usage: slurm_cluster.sh start|stop DIR}")
export SLURM_CONF=$dir/slurm.conf

free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])'
}

write_conf() {
    local host
    host=$(hostname -s)
    cat >"$SLURM_CONF" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$(free_port)
SlurmdPort=$(free_port)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
CredType=cred/munge
# A job that is queued again waits until its old credential is worth nothing: 120 s by default.
AuthInfo=socket=$dir/munge.socket,cred_expire=5
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
SlurmctldLogFile=$dir/slurmctld.log
SlurmdLogFile=$dir/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1,batch_sched_delay=0
SlurmdParameters=config_overrides
KillWait=1
# Small, so that a few tasks are more than one array.
MaxArraySize=2
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=main Nodes=$host Default=YES MaxTime=60 State=UP
CONF
}

start() {
    mkdir -p "$dir"/{state,spool}
    chmod 755 "$dir"
    (umask 077 && head -c 128 /dev/urandom >"$dir/munge.key")
    # Forced, as folders above this one, such as /tmp, may be written by everybody.
    munged --force --socket="$dir/munge.socket" --key-file="$dir/munge.key" \
        --pid-file="$dir/munged.pid" --log-file="$dir/munged.log" --seed-file="$dir/munged.seed" \
        2>>"$dir/munged.log"
    write_conf
    slurmctld
    slurmd
    for _ in $(seq 100); do
        if sinfo --noheader --format=%T 2>/dev/null | grep -q idle; then return; fi
        sleep 0.1
    done
    tail -n 5 "$dir"/*.log >&2
    stop
    exit 1
}

stop() {
    scancel --full --state=RUNNING,PENDING --user="$(id -un)" 2>/dev/null || true
    for daemon in slurmd slurmctld munged; do
        local pid
        pid=$(cat "$dir/$daemon.pid" 2>/dev/null) || continue
        kill "$pid" 2>/dev/null || continue
        for _ in $(seq 100); do
            if ! kill -0 "$pid" 2>/dev/null; then break; fi
            sleep 0.1
        done
    done
}

case $action in
    start | stop) "$action" ;;
    *) echo "usage: slurm_cluster.sh start|stop DIR" >&2 && exit 2 ;;
esac
