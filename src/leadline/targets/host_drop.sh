# Write back and drop what this host caches of our files, and read back what it still does: FOLDER.
# Says both in bytes; exit status 3 where that cannot be done here.
folder=$1
command -v fincore >/dev/null || exit 3
dd --help 2>/dev/null | grep -q nocache || exit 3
files() { find "$folder" -maxdepth 1 -type f ! -name .leadline-owner "$@"; }
cached() { files -exec fincore -brno RES -- {} + | awk '{ sum += $1 } END { printf "%d", sum }'; }
before=$(cached) || exit 3
# shellcheck disable=SC2016  # it is the inner shell's
files -exec sh -c 'for file; do
    dd if=/dev/null of="$file" oflag=nocache conv=notrunc,fdatasync count=0 status=none || exit 1
done' sh {} + || exit 1
after=$(cached) || exit 3
echo "$before $after"
