# Print facts about a directory of this host as lines: PATH PROGRAM...
LC_ALL=C
export LC_ALL
path=$1
shift
for program in "$@"; do
    command -v "$program" >/dev/null || echo "lacks $program"
done
if command -v fio >/dev/null; then
    echo "fio $(fio --version 2>&1 | head -n 1)"
fi
echo "machine $(cat /proc/sys/kernel/random/boot_id)"
[ -e "$path" ] || { echo "directory missing"; exit 0; }
[ -d "$path" ] || { echo "directory none"; exit 0; }
if [ ! -w "$path" ] || [ ! -x "$path" ]; then
    echo "directory read-only"
fi
echo "capacity $(stat -f -c '%S %b %a' -- "$path")"
df --output=fstype,source -- "$path" | sed -n '2s/^/mounted /p'
