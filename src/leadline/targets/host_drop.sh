# Write back and drop this host's cache of the files in FOLDER, and measure what is left.
# Prints the cached bytes before and after; exit status 3 where the host cannot do that.
folder=$1
command -v fincore >/dev/null || exit 3
dd --help 2>/dev/null | grep -q nocache || exit 3
files() { find "$folder" -maxdepth 1 -type f ! -name .leadline-owner "$@"; }
cached() { files -exec fincore -brno RES -- {} + | awk '{ sum += $1 } END { printf "%d", sum }'; }
before=$(cached) || exit 3
# shellcheck disable=SC2016  # the inner shell expands it
files -exec sh -c 'for file; do
    dd if=/dev/null of="$file" oflag=nocache conv=notrunc,fdatasync count=0 status=none || exit 1
done' sh {} + || exit 1
after=$(cached) || exit 3
echo "$before $after"
