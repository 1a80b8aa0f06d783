# shellcheck shell=sh
# All files of the execution in folder $1 as a compressed archive, with their digests. May be asked
# again.
cd "$1" || exit 1
rm -f digests.txt
sha256sum -- *.* >"$1.sums" && mv "$1.sums" digests.txt && tar -cf - -- *.* | gzip -1
