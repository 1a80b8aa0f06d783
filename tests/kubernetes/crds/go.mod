module leadline/tests/kubernetes/crds

go 1.24.0

// Only files of these modules are read; nothing of them is compiled.
require (
	github.com/kubernetes-csi/external-snapshotter/client/v8 v8.2.0
	github.com/longhorn/longhorn-manager v1.7.2
	github.com/openebs/zfs-localpv v1.9.3
	github.com/red-hat-storage/ocs-operator v0.4.13
	github.com/rook/rook v1.15.0
	kubevirt.io/kubevirt v1.6.0
)
