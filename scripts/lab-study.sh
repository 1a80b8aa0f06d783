#!/usr/bin/env bash
# Measures three pools of a lab with fio, as published studies do, and saves the cluster's configuration.
# Usage: leadline lab shell LAB -- scripts/lab-study.sh FOLDER
# Results: FOLDER/results/POOL/VM_SIZE/PVC_SIZE/CONCURRENCY/WORKLOAD/BLOCK_SIZE/CLIENT-fio.json.
# No virtual machine runs: a client is a fio process with its own image, a VM size is a number of cores
# and of I/Os in flight, PVC_SIZE is the size of the image.
set -euo pipefail
folder=$1
seconds=${STUDY_SECONDS:-2}
size=64M
declare -A metadata=([rep3]=rep3 [rep2]=rep2 [ec-2-1]=rep3) # the pool with an image's metadata
declare -A cores=([small]=0 [medium]=0,1) depth=([small]=4 [medium]=8)

mkdir -p "$folder/inventory"
for command in "status" "health detail" "versions" "osd tree" "osd dump" "osd crush dump" \
    "osd metadata" "config dump"; do
    # shellcheck disable=SC2086 # the words of a command
    ceph $command --format json >"$folder/inventory/${command// /_}.json" &
done
wait

measure() { # target, client, output, fio's options
    fio --name=fio --ioengine=rbd --clientname=admin --pool="${metadata[$1]}" --rbdname="$1-$2" \
        --size=$size --direct=1 --output-format=json+ --output="$3" "${@:4}"
}

prefill() { # target, client
    rbd create "${metadata[$1]}/$1-$2" --size $size --data-pool "$1"
    measure "$1" "$2" /dev/null --rw=write --bs=1M --iodepth=8
}

for target in rep3 rep2 ec-2-1; do
    for client in 1 2; do prefill "$target" "$client" & done
    wait
    for vm_size in small medium; do
        for concurrency in 1 2; do
            place=$folder/results/$target/$vm_size/$size/$concurrency/mixed-70-30/4k
            mkdir -p "$place"
            for client in $(seq "$concurrency"); do
                measure "$target" "$client" "$place/client-$client-fio.json" --rw=randrw \
                    --rwmixread=70 --bs=4k --iodepth="${depth[$vm_size]}" \
                    --cpus_allowed="${cores[$vm_size]}" --time_based --runtime="$seconds" &
            done
            wait
        done
    done
done
